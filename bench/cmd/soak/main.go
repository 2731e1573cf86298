// Command soak runs the millrace server for a long time under load. It looks for wrong bytes and
// for growing resource use. See docs/soak.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/millrace-io/millrace/bench/soak"
)

const (
	failed   = 1
	unjudged = 2 // no verdict, or the soak could not run
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	os.Exit(status)
}

func run(ctx context.Context) (status int, err error) {
	cfg := soak.Defaults()
	flag.DurationVar(&cfg.For, "for", cfg.For, "how long to run")
	flag.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of the random choices")
	flag.IntVar(&cfg.Streams, "streams", cfg.Streams, "FLV streams to each server")
	flag.IntVar(&cfg.Viewers, "viewers", cfg.Viewers, "viewers of each stream; a quarter stalls")
	flag.IntVar(&cfg.Rate, "rate", cfg.Rate, "bits a second of a stream")
	flag.StringVar(&cfg.Keep, "keep", "",
		"if the run fails, leave the servers' logs in this directory")
	flag.StringVar(&cfg.Program, "program", "",
		"the server's program; empty: build it from this source")
	flag.Parse()
	report, err := soak.Run(ctx, cfg, func(line string) { fmt.Fprintln(os.Stderr, line) })
	if err != nil {
		return unjudged, err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(report); err != nil {
		return unjudged, err
	}
	switch report.Verdict {
	case soak.Failed:
		return failed, errors.New("failed:\n  " + strings.Join(report.Faults, "\n  "))
	case soak.Unjudged:
		return unjudged, errors.New("not judged:\n  " + strings.Join(report.Unjudged, "\n  "))
	}
	return 0, nil
}
