// Command directory sends the commands of cluster nodes to Redis, to measure their cost.
//
//	directory redis://HOST:PORT
//
// It reads tasks from standard input, one per line, and writes a line for each: "ok" or an error.
// It ends when the input ends.
//
//	claim N      claims streams, N times
//	renew N      renews N leases, 500 in a pipeline
//	lookup N     looks up the owners of streams, N times
//	hear N       sends heartbeats until 50 nodes have received N of them in total
//	await NAME   waits until a stream has an owner
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
)

const (
	prefix    = "millrace:"     // default of millrace serve
	lease     = 5 * time.Second // default of millrace serve
	node      = "http://127.0.0.1:1"
	streams   = 500 // also the number of leases in a pipeline
	listeners = 50  // number of nodes that receive each heartbeat
	patience  = time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "directory: want one argument, redis://HOST:PORT")
		os.Exit(2)
	}
	if err := serve(ctx, os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "directory:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, address string, in io.Reader, out io.Writer) error {
	redis, err := cluster.OpenRedis(cluster.RedisConfig{Address: address, Prefix: prefix,
		Lease: lease})
	if err != nil {
		return err
	}
	defer redis.Close()
	d := directory{redis}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer := "ok"
		if err := d.do(ctx, lines.Text()); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

type directory struct{ redis *cluster.Redis }

func (d directory) do(ctx context.Context, line string) error {
	task, argument, _ := strings.Cut(line, " ")
	if task == "await" {
		return d.await(ctx, argument)
	}
	n, err := strconv.Atoi(argument)
	if err != nil {
		return fmt.Errorf("%q: want TASK N", line)
	}
	switch task {
	case "claim":
		return d.claim(ctx, n)
	case "renew":
		return d.renew(ctx, n)
	case "lookup":
		return d.lookup(ctx, n)
	case "hear":
		return d.hear(ctx, n)
	}
	return fmt.Errorf("%q: no such task", task)
}

func stream(i int) string { return fmt.Sprintf("s%d", i%streams) }

func (d directory) claimOne(ctx context.Context, stream string) (epoch uint64, err error) {
	return d.redis.Claim(ctx, cluster.Claim{Stream: stream, Node: node,
		Takeover: live.TakeoverAlways})
}

func (d directory) claim(ctx context.Context, n int) error {
	for i := range n {
		if _, err := d.claimOne(ctx, stream(i)); err != nil {
			return err
		}
	}
	return nil
}

func (d directory) renew(ctx context.Context, n int) (err error) {
	owned := make([]cluster.Ownership, streams)
	for i := range owned {
		owned[i].Stream = stream(i)
		if owned[i].Epoch, err = d.claimOne(ctx, owned[i].Stream); err != nil {
			return err
		}
	}
	for range n / streams {
		errs, err := d.redis.Renew(ctx, node, owned...)
		if err := errors.Join(append(errs, err)...); err != nil {
			return err
		}
	}
	return nil
}

func (d directory) lookup(ctx context.Context, n int) error {
	for i := range n {
		if _, err := d.redis.Lookup(ctx, stream(i)); err != nil {
			return err
		}
	}
	return nil
}

// hear sends heartbeats from one node until the listening nodes have received n of them in total.
func (d directory) hear(ctx context.Context, n int) error {
	ctx, stop := context.WithCancel(ctx)
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer stop()
	var connected, heard atomic.Int64
	for range listeners {
		hearing.Go(func() {
			d.redis.Watch(ctx, func(e cluster.Event) {
				if e == (cluster.Event{}) {
					connected.Add(1)
				} else {
					heard.Add(1)
				}
			})
		})
	}
	if err := waitFor(ctx, &connected, listeners); err != nil {
		return fmt.Errorf("connecting nodes: %w", err)
	}
	for i := range n / listeners {
		if _, err := d.redis.Renew(ctx, node); err != nil {
			return err
		}
		if i%100 == 0 { // Redis disconnects a node that reads too slowly
			if err := waitFor(ctx, &heard, i*listeners); err != nil {
				return err
			}
		}
	}
	return waitFor(ctx, &heard, n/listeners*listeners)
}

// waitFor waits until n is at least want, but not longer than patience.
func waitFor(ctx context.Context, n *atomic.Int64, want int) error {
	for began := time.Now(); int(n.Load()) < want; {
		if time.Since(began) > patience || !sleep.For(ctx, time.Millisecond) {
			return fmt.Errorf("%d of %d", n.Load(), want)
		}
	}
	return nil
}

func (d directory) await(ctx context.Context, stream string) error {
	for {
		_, err := d.redis.Lookup(ctx, stream)
		if !errors.Is(err, cluster.ErrNoOwner) {
			return err
		}
		if !sleep.For(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
}
