package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/millrace-io/millrace/internal/upload"
	"github.com/spf13/cobra"
)

// blobsURL is where millrace serve keeps blobs unless it is told otherwise.
const blobsURL = "http://127.0.0.1:8080/blobs/"

func putCommand() *cobra.Command {
	cfg := upload.Defaults()
	var quiet bool
	cmd := &cobra.Command{
		Use:   "put FILE [URL]",
		Short: "Upload a file as a blob",
		Long: `Put uploads FILE, or standard input if FILE is -, with a PUT request to URL. If no URL is given, that is
` + blobsURL + `NAME, with the name of FILE. A URL that ends in a slash has the name added to it.

In the end the server has the whole file, or what it had before. A try is repeated only if the server cannot have
accepted the one before: it was not reached, it did not get the last byte, or it says that it is to be asked later (425,
429, 503). What was read from standard input cannot be sent again.

The exit status is not 0 unless the server says that it has the file.`,
		Example: `  # To millrace serve --blobs DIR, or --redis URL
  millrace put film.mp4
  millrace put film.mp4 http://127.0.0.1:8080/blobs/films/1

  # Out of a pipe, for an hour
  tar cz logs | millrace put --ttl 1h - http://127.0.0.1:8080/blobs/logs.tar.gz`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if cfg.URL, err = putURL(args); err != nil {
				return err
			}
			cfg.Path, cfg.Stdin = args[0], cmd.InOrStdin()
			if args[0] == "-" {
				cfg.Path = ""
			}
			if cfg.Token == "" {
				cfg.Token = os.Getenv(tokenVar)
			}
			w := cmd.ErrOrStderr()
			if quiet {
				w = io.Discard
			}
			b := newByteBar(w, isTerminal(w))
			cfg.Progress, cfg.Note = b.show, b.note
			result, err := upload.Run(cmd.Context(), cfg)
			b.close()
			if err != nil {
				return err
			}
			fmt.Fprintln(w, put(cfg.URL, result))
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.DurationVar(&cfg.TTL, "ttl", cfg.TTL, "how long the blob is to be kept; 0: until it is deleted")
	f.BoolVar(&cfg.IfAbsent, "if-absent", false, "upload only if there is nothing at URL")
	f.StringVar(&cfg.Token, "token", "", "token to show to the server ($"+tokenVar+" does not show in ps)")
	f.IntVar(&cfg.Retries, "retries", cfg.Retries, "how often a failed upload is retried")
	f.DurationVar(&cfg.StallTimeout, "stall-timeout", cfg.StallTimeout,
		"a try has failed when the server takes nothing of it, or says nothing, for this long")
	f.BoolVarP(&quiet, "quiet", "q", false, "say nothing but what went wrong in the end")
	return cmd
}

// putURL returns where a file is to be put.
func putURL(args []string) (string, error) {
	to := blobsURL
	if len(args) == 2 {
		to = args[1]
	}
	if !strings.HasSuffix(to, "/") {
		return to, nil
	}
	if args[0] == "-" {
		return "", errors.New("standard input has no name: say a whole URL")
	}
	return to + url.PathEscape(filepath.Base(args[0])), nil
}

// put tells what an upload has done.
func put(to string, r upload.Result) string {
	if u, err := url.Parse(to); err == nil {
		to = u.Redacted()
	}
	done := "replaced"
	if r.Created {
		done = "created"
	}
	text := fmt.Sprintf("%s: %s, %s", to, decimalBytes(r.Bytes), done)
	if r.Tries > 1 {
		text += fmt.Sprintf(", in %d tries", r.Tries)
	}
	return text
}
