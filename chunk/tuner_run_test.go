package chunk_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// fixedWorkers is a Tuner with n workers that nothing moves.
func fixedWorkers(n int) *chunk.Tuner {
	one := chunk.Setting{Workers: n, ChunkSize: 64 << 10, Depth: 3}
	return newTuner(chunk.Between(one, one))
}

func TestAcquireIsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tuner := fixedWorkers(1)
		if err := tuner.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		var order []int
		for i := range 5 {
			go func() {
				if err := tuner.Acquire(t.Context()); err != nil {
					t.Error(err)
				}
				order = append(order, i) // one at a time: that is the point
				tuner.Release()
			}()
			synctest.Wait()
		}
		if s := tuner.Stats(); s.Running != 1 || s.Waiting != 5 {
			t.Errorf("%d at work and %d waiting, want 1 and 5", s.Running, s.Waiting)
		}
		tuner.Release()
		synctest.Wait()
		for i, who := range order {
			if i != who {
				t.Fatalf("in the order %v", order)
			}
		}
		if s := tuner.Stats(); len(order) != 5 || s.Running != 0 || s.Waiting != 0 {
			t.Errorf("%v, then %d at work and %d waiting", order, s.Running, s.Waiting)
		}
	})
}

// A waiter that gives up leaves no hole in the queue.
func TestAcquireGivesUp(t *testing.T) {
	for leaver := range 3 {
		synctest.Test(t, func(t *testing.T) {
			tuner := fixedWorkers(1)
			tuner.Acquire(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			var passed atomic.Int32
			for i := range 3 {
				go func() {
					mine := t.Context()
					if i == leaver {
						mine = ctx
					}
					err := tuner.Acquire(mine)
					if i == leaver {
						if !errors.Is(err, context.Canceled) {
							t.Errorf("error %v", err)
						}
						return
					}
					passed.Add(1)
					tuner.Release()
				}()
				synctest.Wait()
			}
			cancel()
			synctest.Wait()
			if s := tuner.Stats(); s.Waiting != 2 {
				t.Errorf("%d wait, want 2", s.Waiting)
			}
			tuner.Release()
			synctest.Wait()
			if s := tuner.Stats(); passed.Load() != 2 || s.Running != 0 {
				t.Errorf("%d passed, %d at work", passed.Load(), s.Running)
			}
			if err := tuner.Acquire(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("with a context that is over: %v", err)
			}
		})
	}
}

// Never more workers than the setting says, also when waits are cancelled, and none is left in the end.
func TestAcquireRaces(t *testing.T) {
	const limit = 3
	tuner := fixedWorkers(limit)
	var atWork atomic.Int32
	var all sync.WaitGroup
	for i := range uint64(16) {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(i, 0))
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(40))*time.Microsecond)
				if tuner.Acquire(ctx) == nil {
					if n := atWork.Add(1); n > limit {
						t.Errorf("%d at work", n)
					}
					atWork.Add(-1)
					tuner.Release()
				}
				cancel()
			}
		})
	}
	all.Wait()
	if s := tuner.Stats(); s.Running != 0 || s.Waiting != 0 {
		t.Errorf("%d at work, %d waiting", s.Running, s.Waiting)
	}
}

// When the setting rises, waiting workers come in at once; when it falls, no worker is stopped.
func TestAcquireFollowsTheSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tuner := newTuner()
		ctx, cancel := context.WithCancel(t.Context())
		for range 20 {
			go tuner.Acquire(ctx)
		}
		synctest.Wait()
		pressed := steady()
		pressed.Waited = 12
		if m, _ := untilMove(tuner, 50, func(int) chunk.Sample { return pressed }); m.To.Workers != 16 {
			t.Fatal(m)
		}
		synctest.Wait()
		if s := tuner.Stats(); s.Running != 16 || s.Waiting != 4 {
			t.Errorf("%d at work, %d waiting; want 16 and 4", s.Running, s.Waiting)
		}
		if m, _ := untilMove(tuner, 50, func(int) chunk.Sample { return pressed }); m.Why != "not_paid" || m.To.Workers != 8 {
			t.Fatal(m)
		}
		for want := 15; want >= 8; want-- {
			tuner.Release()
			synctest.Wait()
			if s := tuner.Stats(); s.Running != want || s.Waiting != 4 {
				t.Errorf("%d at work, %d waiting; want %d and 4", s.Running, s.Waiting, want)
			}
		}
		tuner.Release()
		synctest.Wait()
		if s := tuner.Stats(); s.Running != 8 || s.Waiting != 3 {
			t.Errorf("%d at work, %d waiting; want 8 and 3", s.Running, s.Waiting)
		}
		cancel()
		synctest.Wait()
	})
}

// Run takes a sample each interval, of what was done since the last, and ends with its context.
func TestRunSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tuner := newTuner()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			tuner.Run(ctx)
		}()
		synctest.Wait()
		sample := tuner.Sampler()
		time.Sleep(625 * time.Millisecond)
		if s := tuner.Stats(); s.Samples != 2 {
			t.Errorf("%+v", s)
		}
		if s := sample(); s.Elapsed != 625*time.Millisecond || s.Processors < 1 || s.CPU < 0 || s.Memory < 1<<20 {
			t.Errorf("of the process: %+v", s)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a second Run does not panic")
				}
			}()
			tuner.Run(t.Context())
		}()
		cancel()
		<-ended
		time.Sleep(time.Second)
		if s := tuner.Stats(); s.Samples != 2 {
			t.Errorf("%d samples after Run ended", s.Samples)
		}
		again, stop := context.WithTimeout(t.Context(), 375*time.Millisecond)
		defer stop()
		tuner.Run(again)
		if s := tuner.Stats(); s.Samples != 3 {
			t.Errorf("%d samples after Run ended again, want 3", s.Samples)
		}
	})
}
