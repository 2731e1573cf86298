// Command bench-relay compares relays of live streams: server CPU seconds for
// a delivered gigabyte, memory, gaps and latency, in interleaved rounds.
//
//	go run ./cmd/bench-relay
//	go run ./cmd/bench-relay -case 50x4 -contenders nginx,millrace@50ms -rounds 9
//	go run ./cmd/bench-relay -case 1x200 -curve
//	go run ./cmd/bench-relay -case 1x200 -stalled 10 -seconds 75 -rounds 1
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/relay"
)

const (
	rivals = "nginx,node,plain,plain-share,bare,millrace@0,millrace@50ms"
	curve  = "millrace@0,millrace@5ms,millrace@10ms,millrace@20ms,millrace@50ms,millrace@100ms"
)

type options struct {
	cases, contenders, json, serve string
	curve, calls                   bool
	plan                           relay.Plan
	stalled                        int
	readEvery                      time.Duration
}

func main() {
	log.SetFlags(log.Ltime)
	var o options
	flag.StringVar(&o.cases, "case", "1x200,50x4", "STREAMSxVIEWERS, more with commas")
	flag.StringVar(&o.contenders, "contenders", rivals, "who takes part, of "+relay.Names+"; one ratio is to the first")
	flag.BoolVar(&o.curve, "curve", false, "the latency bound against its cost, instead of rivals")
	flag.IntVar(&o.plan.Rounds, "rounds", 5, "rounds")
	flag.IntVar(&o.plan.Seconds, "seconds", 12, "seconds measured of each turn")
	flag.IntVar(&o.plan.BitRate, "bitrate", 2_150_000, "bits a second of each stream")
	flag.IntVar(&o.stalled, "stalled", 0, "one viewer in so many reads nothing for a minute")
	flag.DurationVar(&o.readEvery, "read-every", 0, "viewers read that often, not at once")
	flag.BoolVar(&o.calls, "calls", true, "count system calls, too, in a turn of its own for each contender")
	flag.StringVar(&o.json, "json", "", "file for every single report")
	flag.StringVar(&o.serve, "serve", "", "more arguments for millrace serve")
	flag.Parse()
	ctx, stop := measure.UntilStopped()
	defer stop()
	if err := run(ctx, &o, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o *options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "bench-relay-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.curve {
		o.contenders = curve
	}
	all, err := relay.ParseContenders(o.contenders, relay.Builder{Dir: dir}, strings.Fields(o.serve))
	if err != nil {
		return err
	}
	prepare := func(c relay.Contender) error { return c.Prepare(ctx) }
	if o.plan.Contenders, err = measure.Present(all, prepare, log.Printf); err != nil {
		return err
	}
	o.plan.Log = log.Printf
	var taken []relay.Turn
	for _, name := range strings.Split(o.cases, ",") {
		if o.plan.Case, err = relay.ParseCase(name); err != nil {
			return err
		}
		o.plan.Case.Stalled, o.plan.Case.ReadEvery = o.stalled, o.readEvery
		turns, err := o.plan.Run(ctx)
		taken = append(taken, turns...)
		if err != nil {
			return err
		}
		calls, err := o.countCalls(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n%s\n\n", measure.Header())
		o.plan.WriteTable(out, turns, calls)
	}
	return writeJSON(o.json, taken)
}

// countCalls returns nil where that is not wanted or not possible.
func (o *options) countCalls(ctx context.Context) (map[string]float64, error) {
	if !o.calls {
		return nil, nil
	}
	calls, err := o.plan.CountCalls(ctx)
	if errors.Is(err, relay.ErrNotCounted) {
		log.Printf("the column of system calls is left out: %v", err)
		return nil, nil
	}
	return calls, err
}

func writeJSON(name string, turns []relay.Turn) error {
	if name == "" {
		return nil
	}
	b, err := json.MarshalIndent(turns, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(b, '\n'), 0o644)
}
