package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/millrace-io/millrace/chunk"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// mostCut is the largest --size, --max-record and --fixed: what chunk.Size and chunk.MaxRecord take.
const mostCut = 1 << 30

func cutCommand() *cobra.Command {
	var lines, json bool
	var fixed bytesValue
	var size, most bytesValue = 64 << 10, 1 << 20
	cmd := &cobra.Command{
		Use:   "cut FILE",
		Short: "Print where a file can be cut between records",
		Long: `Cut reads FILE, or standard input if FILE is -, and prints the chunks that it
can be split into without cutting a record in two: the offset and the length of
each, in bytes, one chunk per line.

A chunk has as many whole records as fit into --size; a record that is longer is
a chunk by itself, up to --max-record, which is --fixed or more unless you set
it. All three are 1 GiB at most, because a chunk is in memory as a whole. Sizes
take units, as in 4096, 64KiB or 1M.

The exit status is not 0 when a record is longer than --max-record, or when the
file ends within one.`,
		Example: `  # Where to cut a log so that each part is about a megabyte
  millrace cut --lines --size 1MiB access.log

  # JSON values, one per line or one right after the other
  millrace cut --json events.json`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneCutter(cmd.Flags()); err != nil {
				return misused(err)
			}
			if size < 1 || most < 1 || cmd.Flags().Changed("fixed") && fixed < 1 {
				return errors.New("--size, --max-record and --fixed are 1 or more")
			}
			for flag, v := range map[string]*bytesValue{"--size": &size, "--max-record": &most, "--fixed": &fixed} {
				if *v > mostCut {
					return fmt.Errorf("%s is %v, want at most 1GiB", flag, v)
				}
			}
			if !cmd.Flags().Changed("max-record") {
				most = max(most, fixed)
			}
			cutter := chunk.Lines()
			switch {
			case json:
				cutter = chunk.JSON()
			case fixed > 0:
				cutter = chunk.Fixed(int(fixed))
			}
			src, err := open(cmd.Context(), args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			defer src.Close()
			// Full: where the chunks end should not depend on how fast the file comes.
			r := chunk.NewReader(src, chunk.At(cutter), chunk.Size(int(size)), chunk.MaxRecord(int(most)), chunk.Full())
			return printChunks(cmd.Context(), cmd.OutOrStdout(), r)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&lines, "lines", false, "records are lines (the default)")
	f.BoolVar(&json, "json", false, "records are JSON values")
	f.Var(&fixed, "fixed", "records have this many bytes")
	f.Var(&size, "size", "most bytes in a chunk, unless a single record is longer")
	f.Var(&most, "max-record", "most bytes in a record")
	return cmd
}

// oneCutter is an error if records are said to be of more than one kind.
func oneCutter(f *pflag.FlagSet) error {
	kinds := 0
	for _, name := range []string{"lines", "json", "fixed"} {
		if f.Changed(name) {
			kinds++
		}
	}
	if kinds > 1 {
		return errors.New("--lines, --json and --fixed exclude each other: records are of one kind")
	}
	return nil
}

// open opens a file to read; - is stdin. A FIFO that nobody has opened to write to is waited for until ctx ends.
func open(ctx context.Context, name string, stdin io.Reader) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(stdin), nil
	}
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result)
	go func() {
		f, err := os.Open(name)
		select {
		case opened <- result{f, err}:
		case <-ctx.Done():
			_ = f.Close() // nil if there is an error
		}
	}()
	select {
	case r := <-opened:
		return r.f, r.err
	case <-ctx.Done():
		return nil, errInterrupted
	}
}

var errInterrupted = errors.New("interrupted")

// printChunks prints offset and length of each chunk of r, and closes r.
func printChunks(ctx context.Context, w io.Writer, r *chunk.Reader) error {
	defer r.Close()
	out := bufio.NewWriter(w)
	for p, err := range r.Chunks(ctx) {
		if err != nil {
			out.Flush()
			if errors.Is(err, chunk.ErrTooLong) {
				return fmt.Errorf("%w: see --max-record", err)
			}
			if ctx.Err() != nil {
				return errInterrupted
			}
			return err
		}
		fmt.Fprintln(out, r.Offset(), len(p))
	}
	return out.Flush()
}
