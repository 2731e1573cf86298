package redis

import "context"

// A crew is a group of goroutines that make calls. The goroutines start before the measurement, and
// run until dismiss is called.
type crew struct {
	orders []chan int // one channel for each goroutine; a value is the number of calls to make
	done   chan error // one result from each goroutine
}

func assemble(ctx context.Context, c contender, f *fixture, goroutines int) (*crew, error) {
	w := &crew{done: make(chan error, goroutines)}
	for range goroutines {
		do, err := c.worker(f)
		if err != nil {
			w.dismiss()
			return nil, err
		}
		calls := make(chan int)
		w.orders = append(w.orders, calls)
		go func() {
			for n := range calls {
				w.done <- repeat(ctx, do, n)
			}
		}()
	}
	return w, nil
}

func repeat(ctx context.Context, f call, n int) error {
	for range n {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (w *crew) dismiss() {
	for _, calls := range w.orders {
		close(calls)
	}
}

// makeCalls makes each goroutine perform n calls, and waits until all calls have returned.
func (w *crew) makeCalls(n int) (err error) {
	for _, calls := range w.orders {
		calls <- n
	}
	for range w.orders {
		if e := <-w.done; e != nil {
			err = e
		}
	}
	return err
}
