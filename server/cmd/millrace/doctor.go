package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millrace-io/millrace/server/internal/doctor"
	"github.com/millrace-io/millrace/server/internal/server"
	"github.com/spf13/cobra"
)

// maxPlanned is the maximum of --viewers. At 4 KiB for each viewer, no machine has memory for more
// viewers.
const maxPlanned = 1 << 24

func doctorCommand() *cobra.Command {
	limits := server.Defaults()
	plan := doctor.Plan{
		Viewers: 1000, MaxViewers: limits.MaxViewers, MaxStreams: limits.MaxStreams,
		KeepBytes: limits.KeepBytes, Unsent: int64(limits.Unsent), MaxUploads: limits.MaxUploads,
	}
	var asJSON, strict, all, measure bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine for a number of viewers",
		Long: `Doctor looks at what a streaming server needs of a Linux machine: limits, memory and processors (those of a container
included), the network's settings, and the disks. It prints what it finds, the worst first: the value, what to do, why, and
the command for that. It runs none of these commands, and changes nothing. With --measure it also loads a server.

  bad      keeps --viewers from being served
  warn     works, and costs speed, memory or safety
  info     is a choice
  unknown  cannot be seen from here: another system, a container, no permission
  ok       needs no change

The exit status is 0 if nothing is bad, 1 if something is bad or, with --strict, if there is a warning, and 2 if doctor
could not look.

It sees what a server started in its place would see, so run it as the server's user, in its container or unit.`,
		Example: `  # For 1000 viewers of streams
  millrace doctor

  # For 20000, with files and blobs
  millrace doctor --viewers 20000 --root /srv/films --blobs /srv/blobs

  # How many viewers the processors can serve: 12 s of load over loopback
  millrace doctor --measure

  # For scripts
  millrace doctor --json | jq -r '.findings[] | select(.state == "bad") | .name + ": " + .command'`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if plan.Viewers < 1 || plan.Viewers > maxPlanned {
				return misused(fmt.Errorf("--viewers is %d, want from 1 to %d", plan.Viewers,
					maxPlanned))
			}
			report := doctor.Examine(plan)
			if measure {
				c, err := doctor.Measure(cmd.Context(), capacityTrial)
				if err != nil {
					return withStatus(err, 2)
				}
				report.Capacity = &c
			}
			if err := printFindings(cmd.OutOrStdout(), report, asJSON, all); err != nil {
				return withStatus(err, 2)
			}
			return verdict(report, strict)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&plan.Viewers, "viewers", plan.Viewers,
		"viewers and downloads at a time that are expected")
	f.StringVar(&plan.Root, "root", "", "the directory that serve is to be given as --root")
	f.StringVar(&plan.Blobs, "blobs", "", "the directory that serve is to be given as --blobs")
	f.BoolVar(&strict, "strict", false, "warnings make the exit status 1 as well")
	f.BoolVar(&all, "all", false, "also explain findings that need no change")
	f.BoolVar(&measure, "measure", false,
		"load a server on this machine for 12 s, and print how many viewers it could serve (Linux)")
	f.BoolVar(&asJSON, "json", false, "print JSON, with everything")
	return cmd
}

// verdict returns an error with exit status 1 if the report has a bad finding. If strict is true, a
// warning also causes this error.
func verdict(r doctor.Report, strict bool) error {
	bad, warn := r.Counts[doctor.Bad], r.Counts[doctor.Warn]
	if bad == 0 && (!strict || warn == 0) {
		return nil
	}
	return withStatus(fmt.Errorf("this machine needs changes: %d bad, %d warn", bad, warn), 1)
}

func printFindings(out io.Writer, r doctor.Report, asJSON, all bool) error {
	if asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false) // commands may contain ">"
		return e.Encode(r)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.State, f.Group, f.Name, f.Value)
		if f.State == doctor.OK && !all {
			continue
		}
		for _, text := range []struct{ label, text string }{{"advice", f.Advice}, {"why", f.Why},
			{"command", f.Command}} {
			if text.text != "" {
				fmt.Fprintf(w, "\t%s:\t%s\n", text.label, text.text)
			}
		}
	}
	var counts []string
	for _, s := range doctor.States {
		if n := r.Counts[s]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s))
		}
	}
	fmt.Fprintf(w, "\nfor %d viewers: %s\n", r.Viewers, strings.Join(counts, ", "))
	if r.Capacity != nil {
		printCapacity(w, *r.Capacity)
	}
	return w.Flush()
}

func printCapacity(w io.Writer, c doctor.Capacity) {
	rate := float64(c.BitRate) / 1e6
	fmt.Fprintf(w, "\nviewers of one stream of %.2f Mbit/s over HTTP that keep %d CPUs busy:\n\n",
		rate, c.CPUs)
	fmt.Fprintf(w, "--latency\tviewers\tnetwork\n")
	for _, b := range c.Bounds {
		fmt.Fprintf(w, "%v\t%d\t%.1f Gbit/s\n", b.Latency, b.Viewers,
			float64(b.Viewers)*rate/1e3)
	}
	fmt.Fprintf(w, "\nMeasured over loopback: a write takes %.1f µs of CPU time, and a GB %.2f s.\n",
		c.WriteNS/1e3, c.PerGB)
}

// capacityTrial takes twelve seconds, two of which are for the viewers to connect.
var capacityTrial = doctor.Trial{Server: ownServer, Viewers: 500, BitRate: 2_150_000,
	Time: 4 * time.Second}

// ownServer returns a command that runs this program's serve. The flags in the environment are for
// other servers, so they do not apply.
func ownServer(args ...string) *exec.Cmd {
	self, err := os.Executable()
	cmd := exec.Command(self, append([]string{"serve"}, args...)...)
	cmd.Err = errors.Join(cmd.Err, err)
	cmd.Env = slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, variable("")) })
	return cmd
}
