// Command bench-files compares servers of files under wrk, server CPU seconds
// for a delivered gigabyte above all; ways to read a file in several patterns;
// and what page faults cost many threads. All in interleaved rounds.
//
//	go run ./cmd/bench-files
//	go run ./cmd/bench-files -only http -case 1MiBx100,1MiBx100+tls -contenders nginx,millrace,fileserver -svg files.svg
//	go run ./cmd/bench-files -only patterns,paths -dir /var/tmp
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
	"runtime"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/files"
	"github.com/millrace-io/millrace/bench/measure"
)

const (
	cases = "64KiBx8,64KiBx100,1MiBx8,1MiBx100,256MiBx8,256MiBx100," +
		"64KiBx8+tls,64KiBx100+tls,1MiBx8+tls,1MiBx100+tls,256MiBx8+tls,256MiBx100+tls"
	rivals = "fileserver,millrace,millrace-dropin,naive,length,loop,wrapped-copy,wrapped-millrace,nginx,nginx2"
)

type options struct {
	only, cases, contenders, json, svg string
	plan                               files.Plan
	turn                               time.Duration
}

func main() {
	files.Main()
	log.SetFlags(log.Ltime)
	var o options
	flag.StringVar(&o.only, "only", "http,patterns,paths", "what to measure")
	flag.StringVar(&o.cases, "case", cases, "SIZExCONNECTIONS[+tls], more with commas")
	flag.StringVar(&o.contenders, "contenders", rivals,
		"who takes part, of "+strings.Join(files.Keys(), ", ")+"; one ratio is to the first")
	flag.IntVar(&o.plan.Rounds, "rounds", 5, "rounds")
	flag.IntVar(&o.plan.Seconds, "seconds", 4, "seconds of each turn under wrk")
	flag.IntVar(&o.plan.LongSeconds, "long-seconds", 15, "the same with files of 64 MiB and more")
	flag.DurationVar(&o.turn, "turn", 500*time.Millisecond, "length of each turn of patterns and paths")
	flag.StringVar(&o.plan.Dir, "dir", "", "where files are made, on a disk; the system's place for them if empty")
	flag.IntVar(&o.plan.Threads, "wrk-threads", runtime.NumCPU(), "threads of wrk")
	flag.StringVar(&o.plan.ServerCPUs, "server-cpus", "", "CPUs that servers are kept to, as taskset has them, such as 1")
	flag.StringVar(&o.plan.LoadCPUs, "wrk-cpus", "", "the same for wrk, such as 0")
	flag.StringVar(&o.json, "json", "", "file for every single turn")
	flag.StringVar(&o.svg, "svg", "", "file for a picture of CPU seconds a gigabyte")
	flag.Parse()
	ctx, stop := measure.UntilStopped()
	defer stop()
	if err := run(ctx, &o, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o *options, out io.Writer) error {
	all := strings.Split(o.only, ",")
	for _, what := range all {
		var err error
		switch strings.TrimSpace(what) {
		case "http":
			err = serve(ctx, o, out)
		case "patterns":
			err = patterns(ctx, o, out)
		case "paths":
			err = paths(ctx, o, out)
		default:
			err = fmt.Errorf("-only %q: there are http, patterns and paths", what)
		}
		if errors.Is(err, measure.ErrMissing) && len(all) > 1 {
			log.Printf("%s is left out: %v", what, err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func serve(ctx context.Context, o *options, out io.Writer) error {
	all, err := files.ParseContenders(o.contenders)
	if err != nil {
		return err
	}
	o.plan.Contenders, err = measure.Present(all, files.Contender.Check, log.Printf)
	if err != nil {
		return err
	}
	for _, s := range strings.Split(o.cases, ",") {
		c, err := files.ParseCase(strings.TrimSpace(s))
		if err != nil {
			return err
		}
		o.plan.Cases = append(o.plan.Cases, c)
	}
	o.plan.Log = log.Printf
	load := files.LoadAverage()
	turns, err := o.plan.Run(ctx)
	if len(turns) == 0 {
		return err
	}
	fmt.Fprintf(out, "\n%s\n\n%s The load average at the start was %s.\n", measure.Header(), o.plan.Sharing(), load)
	for _, c := range o.plan.Cases {
		fmt.Fprintln(out)
		o.plan.WriteTable(out, c, turns)
	}
	if err != nil {
		return err
	}
	if o.svg != "" {
		if err := os.WriteFile(o.svg, o.plan.Chart(turns), 0o644); err != nil {
			return err
		}
	}
	return writeJSON(o.json, turns)
}

func writeJSON(name string, turns []files.Turn) error {
	if name == "" {
		return nil
	}
	b, err := json.MarshalIndent(turns, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(b, '\n'), 0o644)
}

func patterns(ctx context.Context, o *options, out io.Writer) error {
	disk, err := files.Disk(o.plan.Dir)
	if err != nil {
		return err
	}
	p := files.Patterns{
		Dir: o.plan.Dir, Sizes: []int64{1 << 20, 100 << 20, 1 << 30}, Blocks: []int{4 << 10, 64 << 10},
		Rounds: o.plan.Rounds, Turn: o.turn, Log: log.Printf,
	}
	results, err := p.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n\nOn %s.\n", measure.Header(), disk)
	p.Write(out, results)
	return nil
}

func paths(ctx context.Context, o *options, out io.Writer) error {
	disk, err := files.Disk(o.plan.Dir)
	if err != nil {
		return err
	}
	p := files.Paths{
		Dir: o.plan.Dir, Size: 1 << 30, Block: 4 << 10, Threads: 16,
		Rounds: o.plan.Rounds, Turn: o.turn, Log: log.Printf,
	}
	results, err := p.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n\nOn %s.\n", measure.Header(), disk)
	p.Write(out, results)
	return nil
}
