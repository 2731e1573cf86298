//go:build !race && !invariants

package chunk_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

func TestTunerAllocatesNothing(t *testing.T) {
	tuner := fixedWorkers(1)
	r := chunk.NewReader(&repeat{of: strings.Repeat("x", 100) + "\n"}, chunk.At(chunk.Lines()), chunk.TunedBy(newTuner()))
	defer r.Close()
	turn, done := make(chan struct{}), make(chan struct{})
	defer close(turn)
	go func() {
		for range turn {
			tuner.Acquire(t.Context())
			tuner.Release()
			done <- struct{}{}
		}
	}()
	for name, f := range map[string]func(){
		"Observe": func() { tuner.Observe(steady()) },
		"Stats":   func() { tuner.Stats() },
		"Acquire": func() { tuner.Acquire(t.Context()); tuner.Release() },
		"Acquire that waits": func() {
			tuner.Acquire(t.Context())
			turn <- struct{}{}
			for tuner.Stats().Waiting == 0 {
				runtime.Gosched()
			}
			tuner.Release()
			<-done
		},
		"Next": func() {
			ref, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ref.Release()
		},
	} {
		for range 50 {
			f()
		}
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
