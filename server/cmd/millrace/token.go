package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/millrace-io/millrace/server/internal/token"
	"github.com/spf13/cobra"
)

func tokenCommand() *cobra.Command {
	var file, stream, right, until, inspected string
	var lasts time.Duration
	var newKey bool
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Sign or inspect a token (JWT): a right to one stream, for a while",
		Long: `Token prints a JWT for a stream, a right and a time. The key file has the format of --token-key of millrace serve; with
EdDSA it has the private key, and the server's file the public key. The stream tenant/* means all streams below tenant/,
and * means all streams.

With --inspect it explains a token, and whether a server with the file accepts it.

  millrace token --new-key > keys
  millrace token --key keys --stream cam --right publish --for 24h`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if newKey {
				fmt.Fprintln(cmd.OutOrStdout(), token.NewKey())
				return nil
			}
			if file == "" || (stream == "") == (inspected == "") {
				return misused(
					errors.New("--key is needed, and --stream or --inspect; or --new-key alone"))
			}
			expires := time.Now().Add(lasts)
			if until != "" {
				if cmd.Flags().Changed("for") {
					return misused(errors.New("use either --for or --until"))
				}
				var err error
				if expires, err = time.Parse(time.RFC3339, until); err != nil {
					return misused(
						fmt.Errorf("--until is %q, want a time such as 2030-01-31T20:00:00Z",
							until))
				}
			}
			if !expires.After(time.Now()) {
				return misused(fmt.Errorf("the token would have expired at %s",
					expires.Format(time.RFC3339)))
			}
			keys, err := token.ReadKeys(file)
			if err != nil {
				return fmt.Errorf("--key: %w", err)
			}
			if inspected != "" {
				return inspect(cmd.OutOrStdout(), keys, inspected)
			}
			text, err := keys.Sign(token.Token{Right: token.Right(right), Stream: stream,
				Expires: expires})
			if err != nil {
				return misused(err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), text)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "key", "", "key file, whose first key signs")
	f.StringVar(&stream, "stream", "", "name of the stream, or TENANT/* or *")
	f.StringVar(&right, "right", string(token.Read), "read, or publish, which is both")
	f.DurationVar(&lasts, "for", time.Hour, "how long it is valid")
	f.StringVar(&until, "until", "",
		"until when it is valid, such as 2030-01-31T20:00:00Z, instead of --for")
	f.StringVar(&inspected, "inspect", "", "explain this token instead of signing one")
	f.BoolVar(&newKey, "new-key", false, "print a new HS256 key as a line for the key file, and no token")
	return cmd
}

// inspect prints the header, the claims and the expiration time of a token. If a server with these
// keys would refuse the token, inspect returns an error.
func inspect(w io.Writer, keys token.Keys, text string) error {
	header, claims, err := token.Decode(text)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n%s\n", header, claims)
	at := time.Now()
	t, err := keys.Verify(text, at)
	if err != nil {
		return err
	}
	if until := t.Expires.Format(time.RFC3339); t.Expires.After(at) {
		fmt.Fprintf(w, "valid until %s\n", until)
	} else {
		fmt.Fprintf(w, "expired at %s, and taken for %v more, because clocks may differ\n", until,
			token.Leeway)
	}
	return nil
}
