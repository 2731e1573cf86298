package server

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Viewers of two streams come, read some, fast or slowly, and go, on connections with little room, while the streams go on:
// whatever a viewer gets is the publisher's, in order, with gaps only before key frames.
func TestViewersComeAndGo(t *testing.T) {
	f := serve(t, func(c *Config) {
		c.Latency, c.ViewerWait = time.Millisecond, 50*time.Millisecond
		c.Unsent, c.LagBytes, c.KeepBytes, c.MaxTagBytes = smallBuffer, 100<<10, 400<<10, 64<<10
	})
	const each = 12
	var wg sync.WaitGroup
	for i := range 2 {
		name := fmt.Sprintf("cam-%d", i)
		sc := newScript(60, 5, 1500+i)
		p := f.publish(name)
		p.send(sc.start())
		over := make(chan struct{})
		for n := range each {
			wg.Go(func() { visit(t, f, name, sc, uint64(n), over) })
		}
		wg.Go(func() {
			defer close(over)
			for j, tag := range sc.tags {
				p.send(tag)
				if j%20 == 0 {
					time.Sleep(time.Millisecond) // about 20 Mbit/s; nothing depends on it
				}
			}
			if res := p.end(); res.status != 200 {
				t.Errorf("%s: %d %s", name, res.status, res.body)
			}
		})
	}
	wg.Wait()
	f.viewers(0)
}

// visit watches a stream again and again until it is over.
func visit(t *testing.T, f *fixture, name string, sc *script, seed uint64, over <-chan struct{}) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	for {
		select {
		case <-over:
			return
		default:
		}
		rcvbuf := 0
		if rnd.IntN(2) == 0 {
			rcvbuf = smallBuffer
		}
		w := f.ask("/live/"+name, rcvbuf)
		res, err := http.ReadResponse(w.r, nil)
		if err != nil || res.StatusCode != 200 {
			_ = w.conn.Close()
			continue // it came when the stream had just ended
		}
		var got bytes.Buffer
		_, _ = io.CopyN(&got, res.Body, int64(rnd.IntN(60<<10)))
		_ = w.conn.Close()
		if p := got.Bytes(); len(p) > len(sc.header) {
			jumps(t, sc, cutBegun(p[len(sc.header):]), -1)
		}
	}
}

// cutBegun cuts what a viewer got into tags, without the last one if that is not whole.
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
