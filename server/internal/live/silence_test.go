package live_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// While a publisher is silent, the rate becomes 0 within seconds, and the age of the last frame
// grows.
func TestASilentPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, nil)
		p := h.publish()
		for i := range uint32(80) {
			time.Sleep(40 * time.Millisecond)
			h.send(p, picture(i%25 == 0, 40*i, 10_000))
		}
		check := func(rates bool, silent time.Duration) {
			t.Helper()
			i, max := h.Streams()[0], h.Stats().SilentMax
			if i.BitRate > 0 != rates || i.Silent != silent.Seconds() || max != silent {
				t.Errorf("%d bit/s, silent for %v s, at most %v: want a rate: %v, and silent for %v", i.BitRate, i.Silent, max, rates, silent)
			}
		}
		check(true, 0)
		time.Sleep(time.Second)
		check(true, time.Second)
		time.Sleep(2 * time.Second)
		check(false, 3*time.Second)
		h.send(p, picture(true, 4000, 10_000))
		check(true, 0)
		h.done(p, io.ErrUnexpectedEOF)
		time.Sleep(time.Second)
		if i, max := h.Streams()[0], h.Stats().SilentMax; i.Silent != 1 || i.Waiting != 1 ||
			max != 0 {
			t.Errorf("silent for %v s, waiting for %v s, at most silent for %v", i.Silent,
				i.Waiting, max)
		}
		h.Close()
	})
}
