// Package cluster compares the costs of a cluster of millrace servers and of one server. It also
// measures how streams continue when a node or Redis fails, and computes the cost of many viewers.
//
// All processes share one machine. Costs are therefore measured as CPU time, not as throughput, and
// costs to be compared are measured at the same time.
package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"

	"github.com/millrace-io/millrace/bench/measure"
)

// Program is the cluster benchmark. Each part prints one table, except that "cost" and "capacity"
// print one table for each case.
var Program = &measure.Program{
	Name: "cluster", What: "nodes that share streams: costs, failures, and a model of many viewers",
	Rounds: 3,
	Parts: []string{"cost", "copies", "latency", "capacity", "takeover", "outage", "redis",
		"model"},
	Brief: []string{"-rounds", "1", "-trials", "3", "-outage", "6s", "-only",
		"cost,latency,takeover,outage,redis,model"},
	Flags: func(f *flag.FlagSet) {
		f.StringVar(&options.cases, "case", "1x200,50x4",
			"STREAMSxVIEWERS of the costs, more with commas; the model needs two of different shapes")
		f.StringVar(&options.capacity, "capacity", "5x100,3x300",
			"STREAMSxVIEWERS that one, two and three nodes serve, more with commas")
		f.IntVar(&options.seconds, "seconds", 8, "seconds measured of each turn")
		f.IntVar(&options.trials, "trials", 10, "of latency and takeover")
		f.DurationVar(&options.outage, "outage", time.Minute, "how long Redis is away")
		options.model.flags(f)
	},
	Run: run,
}

var options struct {
	cases, capacity string
	seconds, trials int
	outage          time.Duration
	model           model
}

// bound is the default value of the --latency flag of millrace serve.
const bound = 50 * time.Millisecond

// bitRate is the bit rate of each stream, in bits per second.
const bitRate = 2_150_000

func run(ctx context.Context, p *measure.Params) error {
	dir, err := os.MkdirTemp("", "bench-cluster-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{Params: p, dir: dir, costs: options.model.costs}
	if b.bin, err = measure.Build(ctx, dir, measure.Millrace); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"cost", b.cost}, {"copies", b.copies}, {"latency", b.latency}, {"capacity", b.capacity},
		{"takeover", b.takeover},
		{"outage", b.outage}, {"redis", b.redisCosts}, {"model", b.model},
	} {
		if !p.Wants(part.name) {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

type bench struct {
	*measure.Params
	dir   string // directory for the executables and the files of Redis
	bin   string // the millrace executable
	costs costs  // inputs of the model: from flags until they are measured
}

// Add appends the load average of the machine to the note of the table, and then calls Params.Add.
func (b *bench) Add(t *measure.Table) error {
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if load, err := fs.LoadAvg(); err == nil {
			t.Note += fmt.Sprintf(
				" Load average in the last five minutes, this program included: %.1f.", load.Load5)
		}
	}
	return b.Params.Add(t)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
