package chunk_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/millrace-io/millrace/chunk"
)

// A turn that comes to one who gives up at the same moment goes to the next one.
func TestTurnOfOneWhoGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tuner := chunk.NewTuner(chunk.WorkersBetween(1, 1))
		must(t, tuner.Acquire(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp, passed := make(chan error, 1), make(chan error, 1)
		go func() { gaveUp <- tuner.Acquire(ctx) }()
		synctest.Wait()
		go func() { passed <- tuner.Acquire(t.Context()) }()
		synctest.Wait()
		tuner.ReleaseWhen(cancel)
		synctest.Wait()
		if err := <-gaveUp; err != context.Canceled {
			t.Errorf("the first one: %v", err)
		}
		select {
		case err := <-passed:
			must(t, err)
		default:
			t.Fatal("the turn is lost, and the next one waits for ever")
		}
		if s := tuner.Stats(); s.Running != 1 || s.Waiting != 0 {
			t.Errorf("%d at work and %d waiting", s.Running, s.Waiting)
		}
		tuner.Release()
	})
}
