package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/millrace-io/millrace/internal/soak"
	"github.com/redis/go-redis/v9/logging"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
)

func soakCommand() *cobra.Command {
	cfg := soak.Defaults()
	var jsonFile string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Run every kind of load at once, and look for leaks",
		Long: `Soak starts servers of its own, and puts streams, files and blobs on them together, with viewers that stall, clients that
break off and come again, and restarts. It compares every byte that comes back with what it must be.

Between two cycles every client hangs up. What the servers hold then, in memory, goroutines, descriptors and pooled blocks, is
compared with earlier cycles.

The exit status is 0 if no byte was wrong and nothing has drifted, 1 if something was wrong, and 2 if there is no telling: the
run was interrupted, or too short (less than 12 s), or there could be none.

One server keeps its blobs in a directory. If redis-server is installed, or --redis says where one is, a second one keeps them
in Redis. Nothing is reached from other machines. Ctrl-C ends the run early, and tells what was seen.`,
		Example: `  # Ten minutes
  millrace soak

  # An hour, and what there is to see of a failure
  millrace soak --for 1h --keep soak-logs --json soak.json`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			logging.Disable() // of go-redis, which writes to standard error: what fails is in the error
			cfg.RedisPassword = os.Getenv(redisPasswordVar)
			w := cmd.ErrOrStderr()
			if quiet {
				w = io.Discard
			}
			return runSoak(cmd, cfg, jsonFile, w)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.DurationVar(&cfg.For, "for", cfg.For, "how long to run")
	f.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of the random choices")
	f.IntVar(&cfg.Streams, "streams", cfg.Streams, "streams to each server; the last of several is plain bytes")
	f.IntVar(&cfg.Viewers, "viewers", cfg.Viewers, "viewers of each stream; a quarter stalls, a quarter comes and goes")
	f.IntVar(&cfg.Rate, "rate", cfg.Rate, "bits a second of a stream")
	f.StringVar(&cfg.Redis, "redis", "", "use this Redis, at redis://HOST:PORT/DB; its other keys are left alone")
	f.StringVar(&cfg.Keep, "keep", "", "if the run fails, leave the servers' logs and goroutines in this directory")
	f.StringVar(&jsonFile, "json", "", "write the report, with every quiet point, to this file")
	f.BoolVarP(&quiet, "quiet", "q", false, "show no progress")
	return cmd
}

// runSoak soaks, shows the progress on w, and writes the report.
func runSoak(cmd *cobra.Command, cfg soak.Config, jsonFile string, w io.Writer) error {
	program, err := os.Executable()
	if err != nil {
		return cannotLook(err)
	}
	cfg.Program = []string{program, "serve"}
	out, err := openOutput(jsonFile)
	if err != nil {
		return cannotLook(err)
	}
	b := &soakBar{w: w, draw: isTerminal(w)}
	report, err := soak.Run(cmd.Context(), cfg, b.show)
	b.close()
	if err != nil {
		return cannotLook(errors.Join(err, out.close()))
	}
	err = errors.Join(out.write(func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}), out.close(), printSoak(cmd.OutOrStdout(), report))
	return errors.Join(soakFailure(report), cannotLook(err))
}

// soakFailure is an error unless everything was judged, and nothing was wrong. Its exit status says which of these it is.
func soakFailure(r soak.Report) error {
	list := func(lines []string) string { return strings.Join(lines, "\n  ") }
	switch r.Verdict {
	case soak.Passed:
		return nil
	case soak.Unjudged:
		return cannotLook(fmt.Errorf("the soak has not judged everything:\n  %s", list(r.Unjudged)))
	}
	return &statusError{fmt.Errorf("the soak has failed:\n  %s", list(r.Reasons)), 1}
}

// soakBar is the progress bar of a soak, whose length is its time, with a line above it for each cycle. Where the
// output is not a terminal there are only the lines.
type soakBar struct {
	w    io.Writer
	draw bool
	b    *progressbar.ProgressBar // nil if nothing is drawn, or not yet
}

func (b *soakBar) show(p soak.Progress) {
	if p.Cycle != nil {
		b.close()
		fmt.Fprintln(b.w, cycleLine(p.Elapsed, p.Cycle))
	}
	if !b.draw {
		return
	}
	if b.b == nil {
		b.b = progressbar.NewOptions64(p.Total.Milliseconds(),
			progressbar.OptionSetWriter(b.w),
			progressbar.OptionSetWidth(24),
			progressbar.OptionSetPredictTime(false),
			progressbar.OptionSetElapsedTime(false),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetSpinnerChangeInterval(0), // otherwise a goroutine turns it, and never ends
		)
	}
	_ = b.b.Set64(min(p.Elapsed, p.Total).Milliseconds())
}

// close takes the bar away.
func (b *soakBar) close() {
	if b.b != nil {
		_ = b.b.Exit()
		_ = b.b.Clear()
		b.b = nil
	}
}

// cycleLine tells of a cycle that is over.
func cycleLine(elapsed time.Duration, c *soak.Cycle) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%6s  cycle %d", elapsed.Round(time.Second), c.Number)
	switch c.Signal {
	case 0:
	case syscall.SIGTERM:
		s.WriteString(", SIGTERM")
	default:
		s.WriteString(", SIGKILL")
	}
	fmt.Fprintf(&s, ": %s checked, %d viewers, %d requests", decimalBytes(c.Done.Checked), c.Done.Viewers, soakRequests(c.Done))
	for _, h := range c.Servers {
		fmt.Fprintf(&s, "; %s: %d goroutines, %d descriptors, %s",
			h.Server, h.Goroutines, h.Descriptors, decimalBytes(h.RSS))
	}
	return s.String()
}

func soakRequests(d soak.Done) int64 {
	return d.Files + d.Unmodified + d.Aborted + d.Puts + d.Gets + d.Deletes + d.BrokenPuts
}

// printSoak prints a report for people.
func printSoak(out io.Writer, r soak.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) }
	row("soaked", fmt.Sprintf("%v, %d cycles, seed %d", r.Took.Round(time.Second), r.Cycles, r.Seed))
	if r.Interrupted {
		row("", "interrupted: what was seen until then")
	}
	d := r.Done
	row("checked", fmt.Sprintf("%s, every byte; %s sent", decimalBytes(d.Checked), decimalBytes(d.Sent)))
	row("streams", fmt.Sprintf("%d published, of which %d broke off", d.Streams, d.Broken))
	row("viewers", fmt.Sprintf("%d, %d of them of MP4, %d over HTTP/2, %d to the last tag", d.Viewers, d.Movies, d.HTTP2, d.Followed))
	row("stalls", fmt.Sprintf("%d, for which %d tags were passed over and %d viewers cut", d.Stalls, d.Skips, d.Cuts))
	row("files", fmt.Sprintf("%d answered, %d not modified, %d aborted", d.Files, d.Unmodified, d.Aborted))
	row("blobs", fmt.Sprintf("%d put, %d got, %d deleted, %d expired, %d broke off",
		d.Puts, d.Gets, d.Deletes, d.Expired, d.BrokenPuts))
	row("restarts", fmt.Sprintf("%d by SIGTERM, the slowest in %v; %d by SIGKILL; %d requests failed because of them",
		d.Terms, round(d.SlowestDrain), d.Kills, d.Interrupted))
	for _, s := range r.Servers {
		fmt.Fprintln(w)
		soakServer(s, row)
	}
	fmt.Fprintln(w)
	switch r.Verdict {
	case soak.Passed:
		row("verdict", "nothing has drifted, no byte was wrong")
	case soak.Unjudged:
		row("verdict", "NOT JUDGED, though no byte was wrong")
		for _, text := range r.Unjudged {
			row("", text)
		}
	default:
		row("verdict", "FAILED")
	}
	return w.Flush()
}

// soakServer prints what was seen of a server.
func soakServer(s soak.ServerReport, row func(...string)) {
	if len(s.Watched) == 0 {
		row("server " + s.Name)
	} else {
		row("server "+s.Name, "first", "last", "max", "an hour")
	}
	for _, q := range s.Watched {
		row(q.Name, soakAmount(q, q.First), soakAmount(q, q.Last), soakAmount(q, q.Max), soakAmount(q, int64(q.PerHour)))
	}
	allocated, collected := s.Used.PerHour()
	row("allocated an hour", decimalBytes(int64(allocated)))
	row("collections an hour", fmt.Sprintf("%.0f", collected))
	points, judged := 0, 0
	for i, life := range s.Lives {
		points += len(life)
		judged += s.Judged[i]
	}
	row("quiet points", fmt.Sprintf("%d, in %d processes; drift was judged by %d of them", points, len(s.Lives), judged))
}

func soakAmount(q soak.Watched, n int64) string {
	if !q.Bytes {
		return fmt.Sprint(n)
	}
	if n < 0 {
		return "-" + decimalBytes(-n)
	}
	return decimalBytes(n)
}
