package redis

import (
	"context"
	"math"
	"runtime"
	"sync"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
	"github.com/millrace-io/millrace/redisbuf"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// An Idle is what connections take that have moved a value each, and now wait for the next one in their pool.
type Idle struct {
	Name        string
	Heap, Stack measure.Series // bytes a connection

	open func(ctx context.Context, s *Site, n int) (shut func(), err error)
}

// idleSize is the size of the value that each connection moves before.
const idleSize = 64 << 10

func idles() []Idle {
	return []Idle{
		{Name: "net.Conn", open: idleConns},
		{Name: "go-redis", open: idleGoRedis},
		{Name: "rueidis, dedicated", open: idleRueidis},
		{Name: "redisbuf", open: idleRedisbuf},
	}
}

// RunIdle measures n connections each, in turns.
func (p *Plan) RunIdle(ctx context.Context, n int) ([]Idle, error) {
	site, err := p.Server.site(ctx, idleSize, "")
	if err != nil {
		return nil, err
	}
	all := idles()
	for _, i := range all { // what the first of each finds unprepared
		if err := i.turn(ctx, site, 1); err != nil {
			return all, err
		}
	}
	for round := range p.Rounds {
		for _, k := range crossover.Order(len(all), round) {
			i := &all[k]
			p.Log("round %d, idle connections: %s", round+1, i.Name)
			if err := i.turn(ctx, site, n); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

func (i *Idle) turn(ctx context.Context, s *Site, n int) error {
	heap, stack := memory()
	shut, err := i.open(ctx, s, n)
	if err != nil {
		return err
	}
	heapAfter, stackAfter := memory()
	shut()
	i.Heap = append(i.Heap, float64(heapAfter-heap)/float64(n))
	i.Stack = append(i.Stack, float64(stackAfter-stack)/float64(n))
	return nil
}

// memory counts what is left after garbage collection, without what the pool of blocks keeps for anybody.
func memory() (heap, stack int64) {
	var m runtime.MemStats
	for range 3 { // the first ones empty pools
		runtime.GC()
	}
	millrace.DefaultPool.Trim()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}

func idleConns(_ context.Context, s *Site, n int) (func(), error) {
	o := new(opened)
	for range n {
		if _, err := o.dial(s.Network, s.Addr); err != nil {
			o.close()
			return nil, err
		}
	}
	return o.close, nil
}

func idleGoRedis(ctx context.Context, s *Site, n int) (func(), error) {
	rdb := goredis.NewClient(&goredis.Options{Network: s.Network, Addr: s.Addr, PoolSize: n})
	err := holdAll(n, func(ready func()) error {
		c := rdb.Conn()
		defer c.Close()
		err := c.Get(ctx, key).Err()
		ready()
		return err
	})
	return func() { rdb.Close() }, err
}

func idleRueidis(ctx context.Context, s *Site, n int) (func(), error) {
	opt := rueidisOption(s)
	opt.BlockingPoolSize = n
	r, err := rueidis.NewClient(opt)
	if err != nil {
		return nil, err
	}
	err = holdAll(n, func(ready func()) error {
		c, cancel := r.Dedicate()
		defer cancel()
		err := c.Do(ctx, c.B().Get().Key(key).Build()).Error()
		ready()
		return err
	})
	return r.Close, err
}

// idleRedisbuf has each call wait for all others in the middle of its value, so that each has a connection of its own.
func idleRedisbuf(ctx context.Context, s *Site, n int) (func(), error) {
	rdb := newGoRedis(s)
	c, err := redisbuf.New(rdb, redisbuf.Conns(n), redisbuf.InFlight(math.MaxInt64))
	if err != nil {
		return nil, err
	}
	err = holdAll(n, func(ready func()) error {
		_, err := c.GetTo(ctx, key, &waiter{ready: ready})
		ready()
		return err
	})
	return func() { c.Close(); rdb.Close() }, err
}

// A waiter is a Writer that waits for all others when it is first written to.
type waiter struct{ ready func() }

func (w *waiter) Write(p []byte) (int, error) {
	w.ready()
	return len(p), nil
}

// holdAll calls hold n times at the same time. What is called ready waits, the first time, for all others to call theirs.
func holdAll(n int, hold func(ready func()) error) error {
	var there, all sync.WaitGroup
	there.Add(n)
	errs := make(chan error, n)
	for range n {
		all.Go(func() {
			var once sync.Once
			errs <- hold(func() {
				once.Do(func() {
					there.Done()
					there.Wait()
				})
			})
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
