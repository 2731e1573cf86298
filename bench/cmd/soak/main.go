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
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/millrace-io/millrace/bench/badnet"
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
	bad := flag.Bool("bad-network", false, "run in a network namespace whose network loses and "+
		"reorders packets, with a round trip of 200 ms, and 1 Mbit/s for each viewer (Linux)")
	flag.Parse()
	if *bad && os.Getenv(inNamespace) == "" {
		return runInNamespace(ctx)
	}
	if *bad {
		n, err := badnet.Open(badnet.Bad, cfg.Seed)
		if err != nil {
			return unjudged, err
		}
		defer func() {
			_ = n.Close()
			fmt.Fprintf(os.Stderr, "packets: %+v\n", n.Stats())
		}()
		cfg.Hosts = soak.Hosts{Server: badnet.Local, Viewers: badnet.Narrow, Others: badnet.Wide}
	}
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

// inNamespace is the name of an environment variable that is set in the process that
// runInNamespace starts.
const inNamespace = "MILLRACE_SOAK_NAMESPACE"

// runInNamespace runs this program again with the same arguments, in a network namespace.
func runInNamespace(ctx context.Context) (status int, err error) {
	cmd := badnet.Command(os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return unjudged, err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })()
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}
