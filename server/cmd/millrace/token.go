package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/server/internal/token"
	"github.com/spf13/cobra"
)

func tokenCommand() *cobra.Command {
	var file, name, right, until string
	var lasts time.Duration
	var newKey bool
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Sign a token: a right to one stream, for a while",
		Long: `Token prints a token that gives one right to the streams of one name, and expires. The server has the same file as
--token-key. A name such as tenant/* stands for all that begin with tenant/, and * for all.

  millrace token --new-key > keys
  millrace token --key keys --name cam --right publish --for 24h`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if newKey {
				fmt.Fprintln(cmd.OutOrStdout(), token.NewKey())
				return nil
			}
			if file == "" || name == "" {
				return misused(errors.New("--key and --name are needed, or --new-key"))
			}
			what, err := token.ParseRight(right)
			if err != nil {
				return misused(fmt.Errorf("--right: %w", err))
			}
			expires := time.Now().Add(lasts)
			if until != "" {
				if cmd.Flags().Changed("for") {
					return misused(errors.New("--for and --until are two ways to say the same"))
				}
				if expires, err = time.Parse(time.RFC3339, until); err != nil {
					return misused(fmt.Errorf("--until is %q, want a time such as 2030-01-31T20:00:00Z", until))
				}
			}
			if !expires.After(time.Now()) {
				return misused(fmt.Errorf("the token would have expired at %s", expires.Format(time.RFC3339)))
			}
			keys, err := token.ReadKeys(file)
			if err != nil {
				return fmt.Errorf("--key: %w", err)
			}
			text, err := keys.Sign(token.Token{Right: what, Name: name, Expires: expires})
			if err != nil {
				return misused(err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), text)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "key", "", "file with the keys, of which the first one signs")
	f.StringVar(&name, "name", "", "of the stream, or TENANT/* or *")
	f.StringVar(&right, "right", string(token.Read), "read, or publish, which is both")
	f.DurationVar(&lasts, "for", time.Hour, "how long it is valid")
	f.StringVar(&until, "until", "", "until when it is valid, instead of --for")
	f.BoolVar(&newKey, "new-key", false, "print a new key, for the file, and no token")
	return cmd
}
