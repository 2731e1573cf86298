// Command soak-cluster runs a cluster of three nodes under every kind of load and failure. See
// docs/soak.md.
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

	"github.com/millrace-io/millrace/bench/soakcluster"
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
		fmt.Fprintln(os.Stderr, "soak-cluster:", err)
	}
	os.Exit(status)
}

func run(ctx context.Context) (status int, err error) {
	cfg := soakcluster.Defaults()
	flag.DurationVar(&cfg.For, "for", cfg.For, "how long to run")
	flag.Uint64Var(&cfg.Seed, "seed", cfg.Seed, "seed of the random choices")
	flag.IntVar(&cfg.Streams, "streams", cfg.Streams, "streams")
	flag.IntVar(&cfg.Viewers, "viewers", cfg.Viewers, "viewers of each stream")
	flag.IntVar(&cfg.Rate, "rate", cfg.Rate, "bits a second of a stream")
	flag.Int64Var(&cfg.Memory, "memory", cfg.Memory, "memory limit of each node, in bytes")
	flag.DurationVar(&cfg.Kill, "kill", cfg.Kill, "how often a node is killed; 0: never")
	flag.DurationVar(&cfg.Upgrade, "upgrade", cfg.Upgrade, "how often a node is upgraded; 0: never")
	flag.DurationVar(&cfg.Failover, "failover", cfg.Failover, "how often Redis fails over; 0: never")
	flag.StringVar(&cfg.Keep, "keep", "",
		"if the run fails, leave the servers' logs in this directory")
	flag.StringVar(&cfg.Program, "program", "",
		"the server's program; empty: build it from this source")
	flag.Parse()
	rep, err := soakcluster.Run(ctx, cfg, func(line string) { fmt.Fprintln(os.Stderr, line) })
	if err != nil {
		return unjudged, err
	}
	fmt.Fprint(os.Stderr, rep)
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	if err := e.Encode(rep); err != nil {
		return unjudged, err
	}
	switch {
	case len(rep.Faults) > 0:
		return failed, errors.New("failed:\n  " + strings.Join(rep.Faults, "\n  "))
	case rep.Interrupted || len(rep.Missing) > 0:
		return unjudged, fmt.Errorf("not judged: interrupted %v, missing clients: %v",
			rep.Interrupted, rep.Missing)
	}
	return 0, nil
}
