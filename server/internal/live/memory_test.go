package live_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/memory"
)

// When memory is short, new publishers and viewers are refused. Existing ones continue, including a
// returning publisher.
func TestMemoryRefuses(t *testing.T) {
	pool := millrace.NewPool()
	budget := memory.New(1<<20, pool, slog.New(slog.DiscardHandler))
	f := serve(t, func(c *live.Config) { c.Memory, c.PublisherReturn = budget, testTimeout })
	sc := newScript(2, 3, 1000)
	w := f.Ask("/live/cam", 0)
	f.waiting("cam", 1)
	p := f.Publisher("cam")
	p.Send(sc.whole())
	w.Begin()

	all := pool.Get(1 << 20)
	res := f.Get("/live/cam")
	if res.Status != http.StatusServiceUnavailable ||
		!strings.Contains(res.Body, "memory is in use: 1 of 1 MiB") {
		t.Errorf("a viewer: %d %s, want 503 that names the memory in use", res.Status, res.Body)
	}
	if res := f.Request(http.MethodPost, "/live/other",
		string(sc.whole())); res.Status != http.StatusServiceUnavailable {
		t.Errorf("a publisher: %d %s, want 503", res.Status, res.Body)
	}
	p.Cut()
	p.Wait()
	again := f.Publisher("cam")
	again.Send(sc.whole())
	again.End()
	all.Release()
	f.stop()
	same(t, "the stream", untimed(cut(t, w.Rest()[len(sc.header):])),
		untimed(append(append(sc.config, sc.tags...), sc.tags...)))
}

// As a last resort, the largest streams end. Other streams and their viewers are not affected.
func TestLargestStreamEnds(t *testing.T) {
	budget := memory.New(4<<20, millrace.NewPool(), slog.New(slog.DiscardHandler))
	f := serve(t, func(c *live.Config) { c.Memory = budget })
	sc, large := newScript(2, 3, 1000), newScript(1, 20, 100<<10)
	p, q := f.Publisher("small"), f.Publisher("large")
	p.Send(sc.whole())
	q.Send(large.whole())
	f.published("small", len(sc.whole())-len(sc.header))
	f.published("large", len(large.whole())-len(large.header))
	w := f.Watcher("/live/small", 0)

	if n := f.CutLargest(1 << 20); n < 1<<20 {
		t.Errorf("%d bytes freed", n)
	}
	if kept := f.LookUp("large").Forms().Stats().Bytes; kept != 0 {
		t.Errorf("the large stream keeps %d bytes", kept)
	}
	if f.LookUp("small").Forms().Stats().Bytes == 0 {
		t.Error("the small stream keeps nothing")
	}
	if n := f.CutLargest(1 << 30); n > 2<<20 { // returns the rest of its memory
		t.Errorf("%d bytes freed", n)
	}
	if f.LookUp("small").Forms().Stats().Bytes == 0 {
		t.Error("the small stream keeps nothing after the large one")
	}
	p.Send(sc.from(0)[len(sc.start()):])
	if res := p.End(); res.Status != http.StatusOK {
		t.Errorf("the small stream: %d %s", res.Status, res.Body)
	}
	if got := w.Rest(); len(got) < len(sc.from(sc.keys[1]))+len(sc.whole())-len(sc.start()) {
		t.Errorf("its viewer got %d bytes", len(got))
	}
}

// The publisher of the largest stream, which has nothing left to drop, gets the reason.
func TestLargestPublisherGetsTheReason(t *testing.T) {
	budget := memory.New(4<<20, millrace.NewPool(), slog.New(slog.DiscardHandler))
	f := serve(t, func(c *live.Config) { c.Memory = budget })
	p := f.Publisher("large")
	sc := newScript(1, 1, 3<<20)
	p.Send(sc.whole()[:len(sc.whole())-500<<10])
	eventually(t, "a tag that does not end", func() bool {
		s := f.LookUp("large")
		return s != nil && s.InUse() > 2<<20
	})
	f.CutLargest(1 << 20)
	if res := p.Wait(); res.Status != http.StatusServiceUnavailable ||
		!strings.Contains(res.Body, "this stream holds the most") {
		t.Errorf("%d %s, want 503 that says why this stream", res.Status, res.Body)
	}
}

// A viewer that reads nothing is dropped when memory is short, and one that keeps up stays.
func TestLaggardsAreDropped(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.LagBytes, c.LagTime = 0, 0 })
	sc := newScript(3, 3, 1<<20)
	p := f.Publisher("cam")
	p.Send(sc.start())
	slow, w := f.Watcher("/live/cam", 4<<10), f.Watcher("/live/cam", 0)
	p.Send(sc.whole()[len(sc.start()):])
	same(t, "the stream", w.Next(len(sc.whole())), sc.whole())
	eventually(t, "a blocked viewer", func() bool { return f.Stats().Blocked == 1 })
	eventually(t, "it to be late", func() bool { return f.DropLaggards(1, 0) > 0 })
	f.viewers(1)
	if n := f.Stats().Dropped["memory"]; n != 1 {
		t.Errorf("%d viewers dropped", n)
	}
	_ = slow.Conn.Close()
	p.End()
	w.Rest()
}

// When memory is short, a blocked viewer is dropped, but not another node, which may serve many
// viewers.
func TestNodesAreNotDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &leaseCluster{node: testNode{dir: newTestDirectory()}}
		h := newHubTest(t, func(cfg *live.Config) {
			cfg.Cluster, cfg.StallTimeout, cfg.LagBytes, cfg.LagTime = c, time.Hour, 0, 0
		})
		sc := newScript(1, 5, 1000)
		p := h.publish(sc.config...)
		h.send(p, sc.tags...)
		for _, node := range []string{"", "http://other:8080"} {
			client, conn := net.Pipe()
			v, err := live.NewAdmission(h.Hub).Admit(t.Context(),
				live.WatchRequest{Name: "cam", Node: node})
			if err != nil {
				t.Fatal(err)
			}
			transport := v.Connect(fanout.NewConn(conn, false, 0))
			live.NewAdmission(h.Hub).Start(v, func() { _, _ = io.Copy(io.Discard, conn) })
			time.Sleep(10 * time.Second)
			h.DropLaggards(1<<30, 2*time.Second)
			want := fanout.Crowded
			if node != "" {
				want = fanout.Connected
			}
			if why := transport.Reason(); why != want {
				t.Errorf("node %q: %v, want %v", node, why, want)
			}
			_ = client.Close()
			synctest.Wait()
		}
		h.Close()
		h.done(p, nil)
	})
}

// Fragments of tiny frames do not hold the frames' blocks.
func TestFragmentsOfTinyPictures(t *testing.T) {
	const keep = 1 << 20
	f := serve(t, func(c *live.Config) { c.KeepBytes, c.MaxTagBytes = keep, 64<<10 })
	sc := newScript(1, 1, 20)
	p := f.Publisher("cam")
	p.Send(sc.whole())
	w := f.Watcher("/live/cam.mp4", 0)
	go func() { _, _ = io.Copy(io.Discard, w.R) }()
	script := flvTag(flv.TypeScript, 0, append([]byte("\x02\x00\x0aonCuePoint\x05"),
		make([]byte, 30_000)...))
	fragments := func(n int) { // except the last one, which is not complete
		t.Helper()
		eventually(t, fmt.Sprintf("%d fragments", n), func() bool {
			all := f.LookUp("cam").Forms().All()
			return len(all) == 2 && all[1].Stats().PublishedFrames >= uint64(n)
		})
	}
	f.published("cam", len(sc.whole())-len(sc.header))
	for i := range 1000 {
		if i%10 == 0 { // so that the MP4 conversion loses no tag
			fragments(i)
		}
		p.Send(append(script, flvTag(flv.TypeVideo, uint32(100+40*i),
			[]byte("\x27\x01\x00\x00\x00\x00\x00\x00\x01\x41"))...))
	}
	fragments(1000)
	if held := f.LookUp("cam").InUse(); held > 3*keep {
		t.Errorf("%d bytes are held, and at most %d bytes are kept", held, keep)
	}
	p.End()
}
