package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/bench/measure"
)

const (
	// smallSize is the size of the small values in bytes, typical of Redis commands.
	smallSize = 100

	// smallCallers is the number of goroutines that get small values. Each goroutine pauses for
	// smallPause after an answer.
	smallCallers = 4
	smallPause   = 500 * time.Microsecond

	// largeSize is the size of the large values in bytes. In each largeInterval, one large value is
	// read and one is set.
	largeSize     = 10_000_000
	largeInterval = 50 * time.Millisecond
)

type mixedLoad struct {
	name string
	move func(*fixture) (get, set call) // calls for large values; nil: no large values

	p50, p99 measure.Series // latencies of small GETs, in nanoseconds
	moved    measure.Series // bytes of large values transferred per second
	cpu      measure.Series // CPU seconds of this process per second, in user and system mode
}

func mixedLoads() []*mixedLoad {
	value, buf := (&fixture{size: largeSize}).value(), bufferFor(largeSize)
	return []*mixedLoad{
		{name: "no large values"},
		{name: "redisbuf, its own connections", move: func(f *fixture) (get, set call) {
			get = func(ctx context.Context) error {
				_, err := f.redisbuf.GetToBuffer(ctx, key, buf)
				return err
			}
			return get, func(ctx context.Context) error {
				return f.redisbuf.SetFromBuffer(ctx, setKey, value)
			}
		}},
		{name: "go-redis GetToBuffer, SetFromBuffer, the same client",
			move: func(f *fixture) (get, set call) {
				get = func(ctx context.Context) error {
					return f.goredis.GetToBuffer(ctx, key, buf).Err()
				}
				return get, func(ctx context.Context) error {
					return f.goredis.SetFromBuffer(ctx, setKey, value).Err()
				}
			}},
		{name: "go-redis Get, Set, the same client", move: func(f *fixture) (get, set call) {
			get = func(ctx context.Context) error { return f.goredis.Get(ctx, key).Err() }
			return get, func(ctx context.Context) error {
				return f.goredis.Set(ctx, setKey, value, 0).Err()
			}
		}},
	}
}

const smallKey = "bench:small"

func runBeside(ctx context.Context, p *measure.Params, srv *server) error {
	f, err := srv.newFixture(ctx, largeSize)
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.goredis.Set(ctx, smallKey, make([]byte, smallSize), 0).Err(); err != nil {
		return err
	}
	all, rounds := mixedLoads(), max(1, p.Rounds/4)
	err = measure.Rounds(ctx, len(all), rounds, func(round, i int) error {
		p.Logf("redis: round %d, small GETs beside: %s", round+1, all[i].name)
		return all[i].turn(ctx, f, options.beside)
	})
	if err != nil {
		return err
	}
	t := measure.NewTable("redis-beside",
		fmt.Sprintf(
			"Small GETs on a go-redis client, %d at a time, while a value of 10 MB is got and "+
				"another is set every %v; %d rounds of %v", smallCallers, largeInterval, rounds,
			options.beside),
		"large values by", "p50 µs", "p99 µs", "p99, x no large values", "large MB/s",
		"client CPU s/s")
	t.Bar = 2
	for _, b := range all {
		t.Row(b.name, b.p50.Times(1e-3), b.p99.Times(1e-3), b.p99.Over(all[0].p99),
			b.moved.Times(1e-6).Median(), b.cpu.Median())
	}
	return p.Add(t)
}

func (b *mixedLoad) turn(ctx context.Context, f *fixture, d time.Duration) error {
	cpu, began := measure.CPU(), time.Now()
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	var all sync.WaitGroup
	var moved atomic.Int64
	errs := make(chan error, smallCallers+2)
	if b.move != nil {
		get, set := b.move(f)
		for _, c := range []call{get, set} {
			all.Go(func() { errs <- callEvery(ctx, largeInterval, c, &moved) })
		}
	}
	var mu sync.Mutex
	var took []time.Duration
	for range smallCallers {
		all.Go(func() {
			mine, err := smallGets(ctx, f.goredis)
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	b.cpu = append(b.cpu, (measure.CPU()-cpu).Seconds()/time.Since(began).Seconds())
	for err := range errs {
		if err != nil {
			return err
		}
	}
	if len(took) == 0 {
		return errors.New("redis: no small GET in a turn")
	}
	slices.Sort(took)
	b.p50 = append(b.p50, float64(took[len(took)/2]))
	b.p99 = append(b.p99, float64(took[len(took)*99/100]))
	b.moved = append(b.moved, float64(moved.Load())*largeSize/d.Seconds())
	return nil
}

// smallGets gets small values until ctx ends, and returns the latency of each complete request.
func smallGets(ctx context.Context, rdb *goredis.Client) (took []time.Duration, err error) {
	for {
		began := time.Now()
		if err := rdb.Get(ctx, smallKey).Err(); ctx.Err() != nil {
			return took, nil
		} else if err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
		time.Sleep(smallPause)
	}
}

// callEvery calls f once per interval d until ctx ends, and increments *count after each call. If a
// call takes longer than d, the next call follows at once.
func callEvery(ctx context.Context, d time.Duration, f call, count *atomic.Int64) error {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		if err := f(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		count.Add(1)
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
