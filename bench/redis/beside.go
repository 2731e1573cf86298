package redis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
	"github.com/millrace-io/millrace/redisbuf"
	goredis "github.com/redis/go-redis/v9"
)

const (
	// smallSize is a value of those commands that a program has most of.
	smallSize = 100

	// smallCallers get small values at a time, each smallEvery after the answer to the one before.
	smallCallers = 4
	smallEvery   = 500 * time.Microsecond

	// largeSize is a value that moves beside them: one is got, and one is set, every largeEvery.
	largeSize  = 10_000_000
	largeEvery = 50 * time.Millisecond
)

// A Beside is what small GETs on a program's go-redis client take while large values move.
type Beside struct {
	Name     string
	P50, P99 measure.Series // nanoseconds of a small GET
	Moved    measure.Series // bytes of large values a second
	CPU      measure.Series // seconds of this process, in user and system mode, a second

	opts []redisbuf.Option
	c    *redisbuf.Client
	move func(rdb *goredis.Client, c *redisbuf.Client) (get, set func(context.Context) error)
}

func besides() []Beside {
	type call = func(context.Context) error
	value := (&Site{Size: largeSize}).value()
	buf := make([]byte, largeSize+len("\r\n")) // see bufferFor
	own := func(_ *goredis.Client, c *redisbuf.Client) (get, set call) {
		get = func(ctx context.Context) error {
			_, err := c.GetToBuffer(ctx, key, buf)
			return err
		}
		return get, func(ctx context.Context) error { return c.SetFromBuffer(ctx, setKey, value) }
	}
	return []Beside{
		{Name: "alone"},
		{Name: "redisbuf, its own connections", opts: []redisbuf.Option{redisbuf.Pieces(piece)}, move: own},
		{Name: "the same without Pieces", move: own},
		{Name: "go-redis GetToBuffer, SetFromBuffer, the same client", move: func(rdb *goredis.Client, _ *redisbuf.Client) (get, set call) {
			get = func(ctx context.Context) error { return rdb.GetToBuffer(ctx, key, buf).Err() }
			return get, func(ctx context.Context) error { return rdb.SetFromBuffer(ctx, setKey, value).Err() }
		}},
		{Name: "go-redis Get, Set, the same client", move: func(rdb *goredis.Client, _ *redisbuf.Client) (get, set call) {
			get = func(ctx context.Context) error { return rdb.Get(ctx, key).Err() }
			return get, func(ctx context.Context) error { return rdb.Set(ctx, setKey, value, 0).Err() }
		}},
	}
}

// smallKey is what the small GETs read.
const smallKey = "bench:small"

// RunBeside measures them, in turns.
func (p *Plan) RunBeside(ctx context.Context) ([]Beside, error) {
	site, err := p.Server.site(ctx, largeSize, "")
	if err != nil {
		return nil, err
	}
	rdb := newGoRedis(site)
	defer rdb.Close()
	if err := rdb.Set(ctx, smallKey, make([]byte, smallSize), 0).Err(); err != nil {
		return nil, err
	}
	all := besides()
	for i := range all {
		b := &all[i]
		if b.c, err = redisbuf.New(rdb, b.opts...); err != nil {
			return nil, err
		}
		defer b.c.Close()
	}
	for round := range p.Rounds {
		for _, i := range crossover.Order(len(all), round) {
			b := &all[i]
			p.Log("round %d, small GETs beside: %s", round+1, b.Name)
			if err := b.turn(ctx, rdb, p.Beside); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// turn has large values move for as long as small ones are got.
func (b *Beside) turn(ctx context.Context, rdb *goredis.Client, d time.Duration) error {
	cpu, began := measure.CPU(), time.Now()
	ctx, stop := context.WithTimeout(ctx, d)
	defer stop()
	var all sync.WaitGroup
	var moved atomic.Int64
	errs := make(chan error, smallCallers+2)
	if b.move != nil {
		get, set := b.move(rdb, b.c)
		for _, f := range []func(context.Context) error{get, set} {
			all.Go(func() { errs <- pace(ctx, largeEvery, f, &moved) })
		}
	}
	var mu sync.Mutex
	var took []time.Duration
	for range smallCallers {
		all.Go(func() {
			mine, err := smallGets(ctx, rdb)
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	b.CPU = append(b.CPU, (measure.CPU()-cpu).Seconds()/time.Since(began).Seconds())
	for err := range errs {
		if err != nil {
			return err
		}
	}
	if len(took) == 0 {
		return errors.New("redis: no small GET in a turn")
	}
	slices.Sort(took)
	b.P50 = append(b.P50, float64(took[len(took)/2]))
	b.P99 = append(b.P99, float64(took[len(took)*99/100]))
	b.Moved = append(b.Moved, float64(moved.Load())*largeSize/d.Seconds())
	return nil
}

// smallGets gets small values until ctx ends, and returns how long each took. The one that ctx interrupts does not count.
func smallGets(ctx context.Context, rdb *goredis.Client) (took []time.Duration, err error) {
	for {
		began := time.Now()
		if err := rdb.Get(ctx, smallKey).Err(); ctx.Err() != nil {
			return took, nil
		} else if err != nil {
			return took, err
		}
		took = append(took, time.Since(began))
		time.Sleep(smallEvery)
	}
}

// pace calls f every d until ctx ends, or as fast as it can if that is slower, and counts.
func pace(ctx context.Context, d time.Duration, f func(context.Context) error, count *atomic.Int64) error {
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
