package chunk_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/chunk"
)

// fixedWorkers returns a Tuner with n workers that never changes.
func fixedWorkers(n int) *chunk.Tuner {
	one := chunk.Setting{Workers: n, ChunkSize: 64 << 10, Depth: 3}
	return newTuner(chunk.Between(one, one))
}

func wantWorkers(t *testing.T, tuner *chunk.Tuner, running, waiting int) {
	t.Helper()
	if r, w := tuner.Workers(); r != running || w != waiting {
		t.Errorf("%d at work and %d waiting, want %d and %d", r, w, running, waiting)
	}
}

// If the context of a waiter ends while another worker releases, the waiter passes on the slot for
// which it was woken. Its context has other work to end first, so that the end is visible before it
// wakes the waiter.
func TestAcquireGivesUpAsAnotherReleases(t *testing.T) {
	for range 50 {
		tuner := fixedWorkers(1)
		must(t, tuner.Acquire(t.Context()))
		first, cancel := context.WithCancel(t.Context())
		for range 1000 {
			_, cancel := context.WithCancel(first)
			defer cancel()
		}
		second, cancelSecond := context.WithTimeout(t.Context(), time.Minute)
		results := make(chan error, 2)
		for waiting, ctx := range []context.Context{first, second} {
			go func() {
				err := tuner.Acquire(ctx)
				if err == nil {
					tuner.Release()
				}
				if ctx == second {
					results <- err
				}
			}()
			for n := 0; n <= waiting; _, n = tuner.Workers() {
				runtime.Gosched()
			}
		}
		go cancel()
		for first.Err() == nil {
			runtime.Gosched()
		}
		tuner.Release()
		must(t, <-results)
		cancelSecond()
	}
}

// A waiter gets a slot when a worker releases one. A waiter that gives up does not delay others.
func TestAcquireWaits(t *testing.T) {
	for leaver := range 5 {
		synctest.Test(t, func(t *testing.T) {
			tuner := fixedWorkers(1)
			must(t, tuner.Acquire(t.Context()))
			gone, cancel := context.WithCancel(t.Context())
			var order, want []int
			for i := range 5 {
				ctx := t.Context()
				if i == leaver {
					ctx = gone
				} else {
					want = append(want, i)
				}
				go func() {
					if err := tuner.Acquire(ctx); err != nil {
						if i != leaver || !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						return
					}
					order = append(order, i) // no lock: only one runs at a time
					tuner.Release()
				}()
				synctest.Wait()
			}
			wantWorkers(t, tuner, 1, 5)
			cancel()
			synctest.Wait()
			wantWorkers(t, tuner, 1, 4)
			tuner.Release()
			synctest.Wait()
			wantWorkers(t, tuner, 0, 0)
			if slices.Sort(order); !slices.Equal(order, want) {
				t.Errorf("%v came in, want %v", order, want)
			}
			if err := tuner.Acquire(gone); !errors.Is(err, context.Canceled) {
				t.Errorf("with a context that is over: %v", err)
			}
		})
	}
}

// There are never more workers than the setting allows, even if waits are cancelled, and none is
// left at the end.
func TestAcquireRaces(t *testing.T) {
	const limit = 3
	tuner := fixedWorkers(limit)
	var atWork atomic.Int32
	var all sync.WaitGroup
	for i := range uint64(16) {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(i, 0))
			for range 300 {
				ctx, cancel := context.WithTimeout(t.Context(),
					time.Duration(rnd.IntN(40))*time.Microsecond)
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
	wantWorkers(t, tuner, 0, 0)
}

// When the setting rises, waiting workers start at once. When it falls, no worker is stopped.
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
		sample := func(int) chunk.Sample { return pressed }
		if m := untilMove(tuner, 50, sample); m.To.Workers != 16 {
			t.Fatal(m)
		}
		synctest.Wait()
		wantWorkers(t, tuner, 16, 4)
		if m := untilMove(tuner, 50, sample); m.Why != "not_paid" || m.To.Workers != 8 {
			t.Fatal(m)
		}
		for want := 15; want >= 8; want-- {
			tuner.Release()
			synctest.Wait()
			wantWorkers(t, tuner, want, 4)
		}
		tuner.Release()
		synctest.Wait()
		wantWorkers(t, tuner, 8, 3)
		cancel()
		synctest.Wait()
	})
}

// Run takes a sample of the work in each interval, and ends with its context.
func TestRunSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tuner := newTuner()
		sample := tuner.Sampler()
		time.Sleep(625 * time.Millisecond)
		if s := sample(); s.Elapsed != 625*time.Millisecond || s.Processors < 1 || s.CPU < 0 ||
			s.Memory < 1<<20 {
			t.Errorf("of the process: %+v", s)
		}
		tuner.SetMemoryLimit(1) // each sample leads to a change, unless it is skipped after one
		ctx, cancel := context.WithTimeout(t.Context(), 250*6*time.Millisecond+time.Millisecond)
		defer cancel()
		tuner.Run(ctx)
		if _, moves := tuner.Stats(); moves["memory_full"] != 2 {
			t.Errorf("%v of six samples", moves)
		}
		time.Sleep(time.Second)
		if _, moves := tuner.Stats(); moves["memory_full"] != 2 {
			t.Errorf("%v after Run has ended", moves)
		}
	})
}
