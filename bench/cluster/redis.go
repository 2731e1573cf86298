package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/cluster"
	"github.com/millrace-io/millrace/internal/relay"
)

// benchLease is the default of millrace serve.
const benchLease = 5 * time.Second

// A directoryTask is one thing that nodes ask of Redis.
type directoryTask struct {
	name string
	cost func(*costs) *float64
	// do does it n times, and returns how often it was done.
	do func(ctx context.Context, d *cluster.Redis, n int) error
}

const (
	renewed   = 500 // leases in a pipeline
	listeners = 50  // that each heartbeat is delivered to
	calls     = 20_000
)

var benchNode = "http://127.0.0.1:1"

var directoryTasks = []directoryTask{
	{"claim of a stream", func(c *costs) *float64 { return &c.claim },
		func(ctx context.Context, d *cluster.Redis, n int) error {
			for i := range n {
				_, err := d.Claim(ctx, cluster.Claim{Stream: fmt.Sprintf("s%d", i%renewed), Node: benchNode, Takeover: relay.TakeoverAlways})
				if err != nil {
					return err
				}
			}
			return nil
		}},
	{"renewal of a stream, 500 in a pipeline", func(c *costs) *float64 { return &c.renew },
		func(ctx context.Context, d *cluster.Redis, n int) error {
			owned := make([]cluster.Ownership, renewed)
			for i := range owned {
				o := cluster.Ownership{Stream: fmt.Sprintf("s%d", i)}
				var err error
				if o.Epoch, err = d.Claim(ctx, cluster.Claim{Stream: o.Stream, Node: benchNode, Takeover: relay.TakeoverAlways}); err != nil {
					return err
				}
				owned[i] = o
			}
			for range n / renewed {
				errs, err := d.Renew(ctx, benchNode, owned...)
				for _, each := range append(errs, err) {
					if each != nil {
						return each
					}
				}
			}
			return nil
		}},
	{"lookup of a stream", func(c *costs) *float64 { return &c.lookup },
		func(ctx context.Context, d *cluster.Redis, n int) error {
			for i := range n {
				if _, err := d.Lookup(ctx, fmt.Sprintf("s%d", i%renewed)); err != nil {
					return err
				}
			}
			return nil
		}},
	{"heartbeat of a node, for each of 50 nodes that hear it", func(c *costs) *float64 { return &c.heard }, hear},
}

// hear has n heartbeats delivered in all.
func hear(ctx context.Context, d *cluster.Redis, n int) error {
	ctx, stop := context.WithCancel(ctx)
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer stop()
	var connected, heard atomic.Int64
	for range listeners {
		hearing.Go(func() {
			d.Watch(ctx, func(e cluster.Event) {
				if e == (cluster.Event{}) {
					connected.Add(1)
				} else {
					heard.Add(1)
				}
			})
		})
	}
	until := func(n *atomic.Int64, least int) error {
		for began := time.Now(); int(n.Load()) < least; time.Sleep(time.Millisecond) {
			if time.Since(began) > trialTime || ctx.Err() != nil {
				return fmt.Errorf("%d of %d", n.Load(), least)
			}
		}
		return nil
	}
	if err := until(&connected, listeners); err != nil {
		return fmt.Errorf("connecting nodes: %w", err)
	}
	for i := range n / listeners {
		if _, err := d.Renew(ctx, benchNode); err != nil {
			return err
		}
		if i%100 == 0 { // Redis disconnects nodes that hear too slowly
			if err := until(&heard, i*listeners); err != nil {
				return err
			}
		}
	}
	return until(&heard, n/listeners*listeners)
}

// redis measures what Redis itself uses for what nodes ask of it.
func (b *bench) redis(ctx context.Context) error {
	s := &site{b: b}
	defer s.close()
	if err := s.startRedis(ctx); err != nil {
		return err
	}
	d, err := cluster.OpenRedis("redis://"+s.addr, "", "bench:", benchLease)
	if err != nil {
		return err
	}
	defer d.Close()
	t := measure.NewTable("cluster-redis", "What Redis uses for what nodes ask of it",
		"task", "CPU µs of Redis", "a second on one CPU")
	t.Bar = 1
	took := make([]measure.Series, len(directoryTasks))
	cpu := cpuOf(s.redis)
	err = measure.Rounds(ctx, len(directoryTasks), b.Rounds, func(round, i int) error {
		task := directoryTasks[i]
		if round == 0 { // the scripts are there, and the streams
			if err := directoryTasks[0].do(ctx, d, renewed); err != nil {
				return err
			}
		}
		before, err := cpu()
		if err != nil {
			return err
		}
		if err := task.do(ctx, d, calls); err != nil {
			return fmt.Errorf("%s: %w", task.name, err)
		}
		after, err := cpu()
		took[i] = append(took[i], (after-before)*1e6/calls)
		return err
	})
	if err != nil {
		return err
	}
	for i, task := range directoryTasks {
		t.Row(task.name, took[i], 1e6/took[i].Median())
		*task.cost(&b.costs) = took[i].Median()
	}
	return b.Add(t)
}
