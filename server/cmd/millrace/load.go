package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/millrace-io/millrace/internal/load"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func loadCommand() *cobra.Command {
	cfg := load.Config{URL: "http://127.0.0.1:8080", Streams: 1, Viewers: 10}.WithDefaults()
	var asJSON, quiet bool
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Load a server and measure what viewers receive",
		Long: `Load publishes streams to a server in real time, watches them with many viewers, and tells what arrived:
bytes, the gaps between arrivals, the latency, what was lost, and the server's CPU time per gigabyte when
--server-pid names its process on this machine.

The load ends before its time when every publisher or every viewer has ended. The exit status is not 0 then, nor when a
publisher was refused or ended early, when no viewer got anything, or when the load was interrupted. What was measured
until then is printed nevertheless.

Every tag carries its number and the moment it left. The load comes from one process: on the same machine it
competes with the server for the processors. Streams that other programs publish carry no such numbers: their losses and
latency are not known.`,
		Example: `  # 200 viewers of one stream of 2.15 Mbit/s, and the server's CPU time
  millrace load --viewers 200 --server-pid "$(pidof millrace)"

  # 50 streams with 4 viewers each; 20 of the 200 stop reading for a minute
  millrace load --streams 50 --viewers 4 --stalled 20 --duration 90s

  # Watch a stream that another program publishes
  millrace load --no-publish --name demo --viewers 100`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cfg.Check(); err != nil {
				return misused(err)
			}
			var progress func(load.Progress)
			if w := cmd.ErrOrStderr(); !quiet && !asJSON && isTerminal(w) {
				progress = func(p load.Progress) { fmt.Fprint(w, "\r", progressLine(p), "\x1b[K") }
			}
			report, err := load.Run(cmd.Context(), cfg, progress)
			if progress != nil {
				fmt.Fprint(cmd.ErrOrStderr(), "\r\x1b[K")
			}
			if err != nil && report.Bytes == 0 && report.Publishers.Tags == 0 {
				return err // nothing was measured, so do not print a report
			}
			if report.Interrupted && err == nil {
				err = errInterrupted // so that scripts see that the load was incomplete
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return errors.Join(e.Encode(report), err)
			}
			return errors.Join(printReport(cmd.OutOrStdout(), report), err)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	loadFlags(f, &cfg)
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	f.BoolVarP(&quiet, "quiet", "q", false, "show no progress")
	return cmd
}

var errInterrupted = errors.New("interrupted: the figures are of the time until then")

func loadFlags(f *pflag.FlagSet, cfg *load.Config) {
	f.StringVar(&cfg.URL, "url", cfg.URL, "the server")
	f.BoolVar(&cfg.AllowRemote, "remote", false,
		"allow a server on another machine: only load servers that you run")
	f.StringVar(&cfg.Token, "token", os.Getenv(variable("publish-token")),
		"publish token ($"+variable("publish-token")+")")
	f.Lookup("token").DefValue = ""

	f.IntVar(&cfg.Streams, "streams", cfg.Streams,
		"streams to publish, called load-0, load-1 and so on")
	f.StringSliceVar(&cfg.Names, "name", nil, "streams by name instead; may be repeated")
	f.BoolVar(&cfg.NoPublish, "no-publish", false, "publish nothing, only watch")
	f.IntVar(&cfg.Viewers, "viewers", cfg.Viewers, "viewers of each stream; 0: only publish")
	f.IntVar(&cfg.Stalled, "stalled", 0, "how many of all the viewers stop reading for --stall-for")
	f.DurationVar(&cfg.StallFor, "stall-for", cfg.StallFor, "how long those viewers read nothing")

	f.IntVar(&cfg.BitRate, "bit-rate", cfg.BitRate, "bits per second of each stream")
	f.DurationVar(&cfg.KeyInterval, "key-interval", cfg.KeyInterval, "time between keyframes")
	f.DurationVar(&cfg.Ramp, "ramp", cfg.Ramp, "time over which the viewers come")
	f.DurationVar(&cfg.Settle, "settle", cfg.Settle,
		"time after that before the measurement begins")
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration, "how long the measurement then lasts")
	f.Var((*pidsValue)(&cfg.ServerPIDs), "server-pid",
		"the server's processes on this machine, for its CPU time and memory (Linux)")
}

// A pidsValue is the value of a flag for process IDs. The IDs are separated by commas, or by spaces
// as in the output of pidof.
type pidsValue []int

func (v *pidsValue) Type() string { return "ints" }

func (v *pidsValue) String() string { return strings.Trim(fmt.Sprint([]int(*v)), "[]") }

// Set parses a list of process IDs and appends them to v.
func (v *pidsValue) Set(s string) error {
	numbers := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(numbers) == 0 {
		return errors.New("no such process")
	}
	for _, n := range numbers {
		pid, err := strconv.Atoi(n)
		if err != nil {
			return fmt.Errorf("%q is not a process number", n)
		}
		*v = append(*v, pid)
	}
	return nil
}

// isTerminal reports whether w is a character device, such as a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func progressLine(p load.Progress) string {
	what := "starting"
	if p.Measuring {
		what = "measuring"
	}
	return fmt.Sprintf("%v of %v, %s: %d publishers, %d viewers, %s, %d tags lost, %d disconnects",
		min(p.Elapsed, p.Total).Round(time.Second), p.Total, what,
		p.Publishers, p.Viewers, decimalBytes(p.Bytes), p.Lost, p.Ended)
}

func printReport(out io.Writer, r load.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, c)
		}
		fmt.Fprintln(w)
	}
	row("target", r.Target)
	measured := round(r.Measured).String()
	switch {
	case r.Interrupted:
		measured += ", then interrupted"
	case r.EndedEarly:
		measured += ", then nothing was left to measure"
	}
	row("measured", measured)
	row("delivered", fmt.Sprintf("%s (%s/s)", decimalBytes(r.Bytes),
		decimalBytes(perSecond(r.Bytes, r.Measured))))
	if r.Publishers.Wanted > 0 {
		p := r.Publishers
		row("published", fmt.Sprintf("%d of %d streams, %d tags, %s, at most %v late",
			p.Connected, p.Wanted, p.Tags, decimalBytes(p.Bytes), round(p.Late.Max)))
		printEnded(row, p.Ended)
	}
	fmt.Fprintln(w)

	if r.Viewers.Wanted+r.Stalled.Wanted > 0 {
		row("", "connected", "lost tags", "jumps", "repeated", "gap p50", "p99", "max",
			"latency p50", "p99", "max")
		printViewers(row, "viewers", r.Viewers)
		printViewers(row, "stalled", r.Stalled)
		printEnded(row, r.Viewers.Ended)
		printEnded(row, r.Stalled.Ended)
		fmt.Fprintln(w)
	}
	printUsage(row, "server", r.Server)
	printUsage(row, "generator", r.Generator)
	return w.Flush()
}

func printViewers(row func(...any), name string, v load.Viewers) {
	if v.Wanted == 0 {
		return
	}
	cells := []any{name, fmt.Sprintf("%d of %d", v.Connected, v.Wanted)}
	if v.Numbered {
		cells = append(cells, v.Lost, v.Jumps, v.Repeated)
	} else {
		cells = append(cells, "-", "-", "-")
	}
	cells = append(cells, spreadCells(v.Gap)...)
	row(append(cells, spreadCells(v.Latency)...)...)
}

// spreadCells returns table cells with P50, P99 and Max of s. If nothing was measured, each cell is
// "-".
func spreadCells(s load.Spread) []any {
	if s.Count == 0 {
		return []any{"-", "-", "-"}
	}
	return []any{round(s.P50), round(s.P99), round(s.Max)}
}

func printEnded(row func(...any), ended map[string]int) {
	for _, why := range slices.Sorted(maps.Keys(ended)) {
		row("", fmt.Sprintf("%d ended early: %s", ended[why], why))
	}
}

func printUsage(row func(...any), name string, u *load.Usage) {
	if u == nil {
		return
	}
	cpu := fmt.Sprintf("%v CPU", round(u.CPU))
	if u.CPUPerGB > 0 {
		cpu += fmt.Sprintf(" (%.2f s a delivered GB)", u.CPUPerGB)
	}
	row(name, fmt.Sprintf("%s, %s resident, at most %s", cpu, decimalBytes(u.RSS),
		decimalBytes(u.PeakRSS)))
}

func perSecond(n int64, d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64(float64(n) / d.Seconds())
}

// round rounds a duration to about three significant digits.
func round(d time.Duration) time.Duration {
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

// decimalBytes formats a number of bytes with decimal units (1 kB is 1000 bytes).
func decimalBytes(n int64) string {
	const units = "kMGTP"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1000, 0
	for ; v >= 1000 && i < len(units)-1; i++ {
		v /= 1000
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " " + units[i:i+1] + "B"
}
