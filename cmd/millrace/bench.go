package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/bench"
	"github.com/redis/go-redis/v9/logging"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func benchCommand() *cobra.Command {
	var o benchOutput
	var cfg bench.Config
	var rounds int
	cmd := &cobra.Command{
		Use:   "bench [" + strings.Join(bench.Names(), "|") + "|all]...",
		Short: "Compare the library with the standard library and go-redis, on this machine",
		Long: `Bench compares what the library does with what it is to replace, on this machine: the standard library, and
go-redis. All of it takes about three minutes on a machine that does nothing else meanwhile.

Every contender has a turn in every round. A value is the median of the rounds with the smallest and the largest; a ratio is
taken within each round, and is above 1 where ours is better. What ours loses is shown as such.

The suites relay and files have their servers in processes of their own. Like redis, they record one more load, on one
clock: what came of it, the Go runtime of the process that does the work, and the kernel. The report (--html) draws all
three.

Where redis-server is not installed, the suite redis is skipped; if it was asked for by name, that is an error. Ctrl-C stops
cleanly: what was measured until then is reported, and the exit status is not 0.`,
		Example: `  # Everything, with a page to look at
  millrace bench --html report.html

  # The Reader alone, with more rounds, for a script
  millrace bench reader --rounds 21 --json -`,
		ValidArgs: append(bench.Names(), bench.All),
		Args: func(cmd *cobra.Command, args []string) error {
			for _, name := range args {
				if !slices.Contains(cmd.ValidArgs, name) {
					return misused(fmt.Errorf("%q is no suite: there are %s", name, strings.Join(cmd.ValidArgs, ", ")))
				}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if child, err := bench.Child(); child {
				return err
			}
			logging.Disable() // of go-redis, which writes to standard error: what fails is in the report
			cfg.Suites, cfg.Version, cfg.Effort = args, version(), bench.DefaultEffort()
			cfg.Profiles = o.profiles
			if cfg.Quick {
				cfg.Effort = bench.QuickEffort()
			}
			if cmd.Flags().Changed("rounds") {
				cfg.Effort.Rounds = rounds
			}
			if err := cfg.Check(); err != nil {
				return err
			}
			// What cannot be written is found out before three minutes have passed.
			if err := o.open(cmd.OutOrStdout()); err != nil {
				return err
			}
			if w := cmd.ErrOrStderr(); !o.quiet && isTerminal(w) {
				bar := newBenchBar(w)
				defer bar.close()
				cfg.Progress = bar.show
			}
			report, err := bench.Run(cmd.Context(), cfg)
			if report == nil {
				return errors.Join(err, o.close())
			}
			if writeErr := o.write(report); writeErr != nil {
				return errors.Join(writeErr, err)
			}
			return errors.Join(o.tell(cmd.ErrOrStderr()), err)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	benchFlags(f, &cfg, &o, &rounds)
	return cmd
}

func benchFlags(f *pflag.FlagSet, cfg *bench.Config, o *benchOutput, rounds *int) {
	f.IntVar(rounds, "rounds", bench.DefaultEffort().Rounds, "turns that every contender has in each case; with --quick 3 unless given")
	f.BoolVar(&cfg.Quick, "quick", false, "about twenty seconds for everything: to see that it works, not to quote figures")
	f.StringVar(&o.json, "json", "", "write the report as JSON to this file; -: to standard output, instead of the table")
	f.StringVar(&o.html, "html", "", "write the report as one HTML page to this file")
	f.StringVar(&o.svg, "svg", "", "write the report's pictures as SVG files to this directory")
	f.StringVar(&o.profiles, "profiles", "", "leave CPU and heap profiles of the recorded loads in this directory")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress")
}

// benchOutput is where a report goes.
type benchOutput struct {
	json, html string // names of files; "" for none
	svg        string // of a directory; "" for none
	profiles   string // of a directory; "" for none
	quiet      bool

	stdout             io.Writer
	jsonFile, htmlFile *outputFile // nil for none
}

func (o *benchOutput) open(stdout io.Writer) (err error) {
	o.stdout = stdout
	json := o.json
	if json == "-" {
		json = ""
	}
	if o.jsonFile, err = openOutput(json); err != nil {
		return err
	}
	if o.htmlFile, err = openOutput(o.html); err != nil {
		return errors.Join(err, o.close())
	}
	for _, dir := range []string{o.svg, o.profiles} {
		if dir != "" {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return errors.Join(err, o.close())
			}
		}
	}
	return nil
}

func (o *benchOutput) close() error { return errors.Join(o.jsonFile.close(), o.htmlFile.close()) }

// write writes the report wherever it was asked for, and to standard output in any case.
func (o *benchOutput) write(r *bench.Report) error {
	show := r.WriteText
	if o.json == "-" {
		show = r.WriteJSON
	}
	errs := []error{show(o.stdout), o.jsonFile.write(r.WriteJSON), o.htmlFile.write(r.WriteHTML)}
	if o.svg != "" {
		errs = append(errs, r.WritePictures(o.svg))
	}
	return errors.Join(append(errs, o.close())...)
}

// tell says where the report is, besides standard output.
func (o *benchOutput) tell(w io.Writer) error {
	if o.quiet {
		return nil
	}
	var err error
	for _, name := range []string{o.json, o.html, o.svg, o.profiles} {
		if name != "" && name != "-" {
			_, printErr := fmt.Fprintf(w, "written: %s\n", name)
			err = errors.Join(err, printErr)
		}
	}
	return err
}

// benchBar is the progress bar of a benchmark, whose length is the time that it takes, about.
type benchBar struct{ b *progressbar.ProgressBar }

func newBenchBar(w io.Writer) *benchBar {
	return &benchBar{progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(false),
		progressbar.OptionThrottle(barInterval),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetSpinnerChangeInterval(0), // otherwise a goroutine turns it, and never ends
	)}
}

func (b *benchBar) show(p bench.Progress) {
	b.b.ChangeMax64(max(p.Total.Milliseconds(), 1))
	left := (p.Total - p.Done).Round(time.Second)
	b.b.Describe(fmt.Sprintf("%-8s %s, about %v left", p.Suite, p.What, left))
	// Not to the end: the bar goes when all is written.
	_ = b.b.Set64(min(p.Done, p.Total-1).Milliseconds())
}

func (b *benchBar) close() {
	_ = b.b.Exit()
	_ = b.b.Clear()
}
