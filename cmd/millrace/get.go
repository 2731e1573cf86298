package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/download"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

func getCommand() *cobra.Command {
	cfg := download.Defaults()
	var quiet bool
	cmd := &cobra.Command{
		Use:   "get URL FILE",
		Short: "Download a file, and resume a download that broke off",
		Long: `Get downloads URL to FILE, or to standard output if FILE is -. A device or a pipe is not replaced, and not written to
unless standard output is redirected there. A symbolic link is replaced by the file, and not followed.

Until it is whole, the file is called FILE.part. When the connection breaks, or nothing comes for --stall-timeout, get asks
for the rest; so does the next get of the same URL and FILE. It goes on only with the version of the file that it began
with, which FILE.part.info names (by an entity tag, or by the date of its last change); if the server has another one, get
starts over. A FILE.part of another URL is left alone without --force, unless the URLs differ only in their query and the
server shows by entity tag and length that the file is the same.

The exit status is not 0 unless the file is there with the length that the server gave. If the server gives none, get says
so.`,
		Example: `  # From millrace serve --root DIR
  millrace get http://127.0.0.1:8080/files/film.mp4 film.mp4

  # Into a pipe
  millrace get --quiet https://example.org/logs.tar.gz - | tar xz`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.URL, cfg.Path, cfg.Stdout = args[0], args[1], cmd.OutOrStdout()
			switch args[1] {
			case "": // as from a variable that is not set
				return errors.New("FILE is empty: say what the file is to be called, or - for standard output")
			case "-":
				cfg.Path = ""
			}
			w := cmd.ErrOrStderr()
			if quiet {
				w = io.Discard
			}
			b := newByteBar(w, isTerminal(w))
			cfg.Progress, cfg.Note = b.show, b.note
			// This is where net/http logs what comes after an answer, in the server's words. That is no part of the
			// file.
			defer log.SetOutput(log.Writer())
			log.SetOutput(io.Discard)
			result, err := download.Run(cmd.Context(), cfg)
			b.close()
			if err != nil {
				return err
			}
			fmt.Fprintln(w, got(args[1], result))
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVarP(&cfg.Force, "force", "f", false,
		"replace FILE (a symbolic link itself, and not what it leads to), and a FILE.part of unknown or other origin")
	f.IntVar(&cfg.Retries, "retries", cfg.Retries,
		"tries in a row that may bring no bytes; also how often the file may be started over")
	f.DurationVar(&cfg.StallTimeout, "stall-timeout", cfg.StallTimeout, "a try that gets no byte for this long has failed")
	f.BoolVarP(&quiet, "quiet", "q", false, "say nothing but what went wrong in the end")
	return cmd
}

// got tells what a download has brought.
func got(name string, r download.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", name, decimalBytes(r.Bytes))
	if r.Resumed > 0 {
		fmt.Fprintf(&b, ", of which %s were there", decimalBytes(r.Resumed))
	}
	if r.Tries > 1 {
		fmt.Fprintf(&b, ", in %d tries", r.Tries)
	}
	if !r.Checked {
		b.WriteString("; the server did not say how long it is, so that the length could not be checked")
	}
	return b.String()
}

// byteBar is the progress bar of a download. It is drawn on terminals only.
type byteBar struct {
	w io.Writer
	b *progressbar.ProgressBar // nil if nothing is drawn, or not yet

	draw      bool
	have, all int64 // as last shown
}

// barInterval is how often a bar is drawn: more often than people see, and seldom enough to cost nothing.
const barInterval = 100 * time.Millisecond

func newByteBar(w io.Writer, draw bool) *byteBar { return &byteBar{w: w, draw: draw} }

// show draws how much there is, of how much. A file that is started over has a new bar.
func (b *byteBar) show(have, all int64) {
	if !b.draw {
		return
	}
	if b.b == nil || have < b.have || all != b.all {
		b.close()
		b.b = progressbar.NewOptions64(max(all, -1),
			progressbar.OptionSetWriter(b.w),
			progressbar.OptionSetWidth(24),
			progressbar.OptionShowBytes(true),
			progressbar.OptionShowTotalBytes(true),
			progressbar.OptionThrottle(barInterval),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetSpinnerChangeInterval(0), // otherwise a goroutine turns it, and never ends
		)
	}
	b.have, b.all = have, all
	_ = b.b.Set64(have)
}

// note prints a line above the bar.
func (b *byteBar) note(text string) {
	b.close()
	fmt.Fprintln(b.w, "millrace:", text)
}

// close takes the bar away.
func (b *byteBar) close() {
	if b.b != nil {
		_ = b.b.Exit()
		_ = b.b.Clear()
		b.b = nil
	}
}
