package redis

import (
	"context"
	"time"
)

// A crew is goroutines that work with one client. They wait between turns, so that a turn starts none.
type crew struct {
	client
	orders []chan int // how many calls each is to make
	done   chan error // of each
}

func assemble(ctx context.Context, c Contender, s *Site, goroutines int) (*crew, error) {
	cl, err := c.open(ctx, s)
	if err != nil {
		return nil, err
	}
	w := &crew{client: cl, done: make(chan error, goroutines)}
	for i := range goroutines {
		f, err := cl.worker(i)
		if err != nil {
			w.dismiss()
			return nil, err
		}
		calls := make(chan int)
		w.orders = append(w.orders, calls)
		go func() {
			for n := range calls {
				w.done <- repeat(ctx, f, n)
			}
		}()
	}
	return w, nil
}

func repeat(ctx context.Context, f func(context.Context) error, n int) error {
	for range n {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// dismiss ends the goroutines and closes the client.
func (w *crew) dismiss() {
	for _, calls := range w.orders {
		close(calls)
	}
	w.close()
}

// calls has each goroutine make n calls.
func (w *crew) calls(n int) (err error) {
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

// calibrate returns how many calls each goroutine makes in d. It opens connections and fills pools on the way.
func (w *crew) calibrate(d time.Duration) (int, error) {
	for n := 1; ; n *= 2 {
		began := time.Now()
		if err := w.calls(n); err != nil {
			return 0, err
		}
		if took := time.Since(began); n > 1 && took >= d/4 {
			return max(1, int(float64(n)*float64(d)/float64(took))), nil
		}
	}
}
