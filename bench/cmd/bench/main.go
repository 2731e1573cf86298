// Command bench compares Millrace with other programs and libraries. The contenders of a benchmark
// run alternately, one turn in each round.
//
//	export GOWORK=off                               # go.work does not list this module
//	go run ./cmd/bench                              # lists the programs
//	go run ./cmd/bench reader -only tcp -rounds 31
//	go run ./cmd/bench all -out results             # runs all briefly, with a report in results/
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/millrace-io/millrace/bench/arena"
	"github.com/millrace-io/millrace/bench/chunk"
	"github.com/millrace-io/millrace/bench/cluster"
	"github.com/millrace-io/millrace/bench/files"
	"github.com/millrace-io/millrace/bench/hls"
	"github.com/millrace-io/millrace/bench/idle"
	"github.com/millrace-io/millrace/bench/kept"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/pool"
	"github.com/millrace-io/millrace/bench/reader"
	"github.com/millrace-io/millrace/bench/record"
	"github.com/millrace-io/millrace/bench/redis"
	"github.com/millrace-io/millrace/bench/relay"
	"github.com/millrace-io/millrace/bench/small"
	"github.com/millrace-io/millrace/bench/sv2"
	"github.com/millrace-io/millrace/bench/upload"
	"github.com/millrace-io/millrace/bench/websocket"
	"github.com/millrace-io/millrace/bench/writer"
)

// programs lists the programs in the order in which "bench all" runs them.
var programs = []*measure.Program{
	reader.Program, writer.Program, kept.Program, upload.Program, pool.Program, idle.Program,
	small.Program, arena.Program, sv2.Program, websocket.Program, chunk.Program, files.Program,
	redis.Program, relay.Program, relay.Law, relay.Start, relay.Push, hls.Program, cluster.Program,
	record.Program,
}

func main() {
	measure.RunChild()
	if len(os.Args) < 2 {
		usage()
		os.Exit(2)
	}
	ctx, stop := measure.UntilStopped()
	defer stop()
	name, args := os.Args[1], os.Args[2:]
	if name == "all" {
		exit(measure.All(ctx, programs, args))
	}
	for _, p := range programs {
		if p.Name == name {
			exit(p.Main(ctx, args, os.Stdout, os.Stderr))
		}
	}
	usage()
	os.Exit(2)
}

func exit(err error) {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: bench PROGRAM [flags]; bench PROGRAM -h lists the flags")
	for _, p := range programs {
		fmt.Fprintf(os.Stderr, "  %-8s %s\n", p.Name, p.What)
	}
	fmt.Fprintln(os.Stderr,
		"  all      all of them briefly; flags are given to each, such as -out DIR")
}
