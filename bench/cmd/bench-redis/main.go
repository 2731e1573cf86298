// Command bench-redis compares ways to move large values in and out of Redis, in interleaved rounds: a raw socket,
// go-redis, rueidis and redisbuf, and redis-benchmark beside redisbuf. It starts a redis-server of its own.
//
//	go run ./cmd/bench-redis
//	go run ./cmd/bench-redis -only rivals
//	go run ./cmd/bench-redis -only get,set -sizes 64KiB,1MiB -rounds 31
//	go run ./cmd/bench-redis -only socket-calls,beside,idle,redis-benchmark
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/redis"
)

type options struct {
	only, sizes, goroutines string
	tables                  []redis.Task // that -only names
	rivals                  bool         // it names them, too
	millis, conns           int
	seconds                 float64
	unix                    bool
	plan                    redis.Plan
}

func main() {
	redis.Main()
	log.SetFlags(log.Ltime)
	var o options
	flag.StringVar(&o.only, "only", strings.Join(keys(), ","), "what to measure; rivals is get and set, in microseconds")
	flag.StringVar(&o.sizes, "sizes", "1KiB,4KiB,64KiB,1MiB,10MiB", "sizes of values")
	flag.StringVar(&o.goroutines, "goroutines", "1,8", "how many make calls at a time")
	flag.IntVar(&o.plan.Rounds, "rounds", 15, "rounds; of beside, idle and redis-benchmark a quarter")
	flag.IntVar(&o.millis, "millis", 40, "milliseconds of each turn; of redis-benchmark five times that")
	flag.Float64Var(&o.seconds, "seconds", 2, "seconds of each turn of beside")
	flag.IntVar(&o.conns, "conns", 1000, "connections of idle")
	flag.BoolVar(&o.unix, "unix", false, "a Unix socket to the server instead of TCP")
	flag.Parse()
	ctx, stop := measure.UntilStopped()
	defer stop()
	if err := run(ctx, &o, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o *options, out io.Writer) error {
	p := &o.plan
	p.Log, p.Turn = log.Printf, time.Duration(o.millis)*time.Millisecond
	p.Beside = time.Duration(o.seconds * float64(time.Second))
	only, err := o.parse()
	if err != nil {
		return err
	}
	p.Server, err = redis.StartServer(ctx, o.unix)
	if err != nil {
		return err
	}
	defer p.Server.Stop()
	fmt.Fprintf(out, "%s %s over %s.\n", measure.Header(), p.Server.Version, p.Server.Network)
	if len(p.Tasks) > 0 {
		fmt.Fprintf(out, "\n%d rounds of %v.\n", p.Rounds, p.Turn)
		results, err := p.Run(ctx)
		o.write(out, results)
		if err != nil {
			return err
		}
	}
	return o.extras(ctx, only, out)
}

// write writes the tables of what was asked for, which may be less than what was measured.
func (o *options) write(out io.Writer, results []redis.Result) {
	p := o.plan
	p.Tasks = o.tables
	p.WriteTables(out, results)
	if o.rivals {
		p.WriteRivals(out, results)
	}
}

// extras are what -only names besides tasks and their rivals.
var extras = []string{"socket-calls", "beside", "idle", "redis-benchmark"}

// keys are all that -only names.
func keys() (all []string) {
	for _, t := range redis.Tasks {
		all = append(all, t.Key)
	}
	return append(append(all, "rivals"), extras...)
}

// parse reads the options that are lists. Those of the extras that -only names are returned.
func (o *options) parse() (more []string, err error) {
	p := &o.plan
	if p.Rounds < 1 || o.millis < 1 || o.conns < 1 || o.seconds <= 0 {
		return nil, errors.New("-rounds, -millis, -conns and -seconds are above 0")
	}
	if p.Sizes, err = redis.ParseSizes(o.sizes); err != nil {
		return nil, err
	}
	for _, s := range strings.Split(o.goroutines, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-goroutines %q", s)
		}
		p.Goroutines = append(p.Goroutines, n)
	}
	for _, what := range strings.Split(o.only, ",") {
		what = strings.TrimSpace(what)
		i := slices.IndexFunc(redis.Tasks, func(t redis.Task) bool { return t.Key == what })
		switch {
		case i >= 0:
			o.tables = append(o.tables, redis.Tasks[i])
		case what == "rivals":
			o.rivals = true
		case slices.Contains(extras, what):
			more = append(more, what)
		default:
			return nil, fmt.Errorf("-only %q: there are %s", what, strings.Join(keys(), ", "))
		}
	}
	o.choose()
	return more, nil
}

// choose has all tasks measured that tables are asked for of, once each.
func (o *options) choose() {
	rivals := redis.RivalTasks()
	for _, t := range redis.Tasks {
		same := func(other redis.Task) bool { return other.Key == t.Key }
		if slices.ContainsFunc(o.tables, same) || o.rivals && slices.ContainsFunc(rivals, same) {
			o.plan.Tasks = append(o.plan.Tasks, t)
		}
	}
}

// extras measures what is no task. What wants a program that is not installed is left out, unless that leaves nothing.
func (o *options) extras(ctx context.Context, all []string, out io.Writer) error {
	var missing error
	measured := len(o.plan.Tasks)
	for _, what := range all {
		switch err := o.extra(ctx, what, out); {
		case err == nil:
			measured++
		case errors.Is(err, measure.ErrMissing):
			missing = err
			log.Printf("%s is left out: %v", what, err)
		default:
			return err
		}
	}
	if measured == 0 {
		return missing
	}
	return nil
}

// extra measures what is no task.
func (o *options) extra(ctx context.Context, what string, out io.Writer) error {
	p := o.plan
	p.Rounds = max(1, p.Rounds/4)
	switch what {
	case "socket-calls":
		p.Tasks = redis.Tasks[:2]
		calls, err := p.CountCalls(ctx)
		if err != nil {
			return err
		}
		redis.WriteCalls(out, calls)
	case "beside":
		beside, err := p.RunBeside(ctx)
		if err != nil {
			return err
		}
		p.WriteBeside(out, beside)
	case "idle":
		idle, err := p.RunIdle(ctx, o.conns)
		if err != nil {
			return err
		}
		p.WriteIdle(out, idle, o.conns)
	case "redis-benchmark":
		floor, err := p.RunFloor(ctx)
		if err != nil {
			return err
		}
		p.WriteFloor(out, floor)
	}
	return nil
}
