package live_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

// Viewers of two streams connect, read some tags, fast or slowly, and leave, on connections with
// small buffers. Each gets the publisher's tags in order, with gaps only before keyframes.
func TestViewersComeAndGo(t *testing.T) {
	f := serve(t, func(c *live.Config) {
		c.Latency = time.Millisecond
		c.Unsent, c.LagBytes, c.KeepBytes, c.MaxTagBytes = smallBuffer, 100<<10, 400<<10, 64<<10
	})
	const each = 12
	var wg sync.WaitGroup
	for i := range 2 {
		name := fmt.Sprintf("cam-%d", i)
		sc := newScript(60, 5, 1500+i)
		over := make(chan struct{})
		for n := range each {
			wg.Go(func() { visit(t, f, name, sc, uint64(n), over) })
		}
		f.waiting(name, each)
		p := f.Publisher(name)
		wg.Go(func() {
			defer close(over)
			p.Send(sc.start())
			for j, tag := range sc.tags {
				p.Send(tag)
				if j%20 == 0 {
					time.Sleep(time.Millisecond) // about 20 Mbit/s; the result does not depend on it
				}
			}
			if res := p.End(); res.Status != 200 {
				t.Errorf("%s: publishing: %d %s, want 200", name, res.Status, res.Body)
			}
		})
	}
	wg.Wait()
	f.viewers(0)
}

// visit watches a stream repeatedly until it has ended. The first time it waits for the stream, and
// gets some of it.
func visit(t *testing.T, f *fixture, name string, sc *script, seed uint64, over <-chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	for first := true; ; first = false {
		want, rcvbuf := 10_000+rnd.IntN(50_000), 0
		if rnd.IntN(2) == 0 {
			rcvbuf = smallBuffer
		}
		w := f.Ask("/live/"+name, rcvbuf)
		if !first {
			go func() {
				<-over
				// A viewer that was too late waits for the next stream.
				_ = w.Conn.SetDeadline(time.Now())
			}()
		}
		var got bytes.Buffer
		if res, err := http.ReadResponse(w.R, nil); err == nil && res.StatusCode == http.StatusOK {
			_, _ = io.CopyN(&got, res.Body, int64(want))
		}
		_ = w.Conn.Close()
		if first && got.Len() < want {
			t.Errorf("%s: the first visit got %d of %d bytes", name, got.Len(), want)
		}
		if p := got.Bytes(); len(p) > len(sc.header) {
			jumps(t, sc, cutBegun(p[len(sc.header):]), -1)
		}
		select {
		case <-over:
			return
		default:
		}
	}
}

// cutBegun splits the bytes of a viewer into tags, without an incomplete last one.
func cutBegun(p []byte) (tags [][]byte) {
	for len(p) >= 11 {
		n := 15 + int(p[1])<<16 + int(p[2])<<8 + int(p[3])
		if n > len(p) {
			break
		}
		tags, p = append(tags, p[:n]), p[n:]
	}
	return tags
}
