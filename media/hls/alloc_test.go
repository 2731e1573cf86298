//go:build !race && !invariants

package hls_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/media/hls"
)

func TestNoAllocations(t *testing.T) {
	f := newFeed(t)
	for range 1000 {
		f.next()
	}
	if n := alloctest.Count(0, func() {
		for range 10_000 {
			f.next()
		}
	}); n != 0 {
		t.Errorf("%v allocations in 10,000 fragments", n)
	}
	dst := f.w.AppendPlaylist(nil, false)
	if n := alloctest.Count(0, func() {
		for range 100 {
			dst = f.w.AppendPlaylist(dst[:0], false)
			dst = f.w.AppendPlaylist(dst[:0], true)
			msn, part := f.w.Next()
			f.w.Status(hls.Reload{MSN: msn, Part: part})
			if o, ok := hls.ParseObject("1z-18446744073709551615.12.m4s"); !ok || o.Part != 12 {
				t.Fatal(o)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations in 100 playlists", n)
	}
}

// feed adds a stream of 25 video frames per second to a Window, each in two pieces, with a keyframe
// every two seconds.
type feed struct {
	w    *hls.Window
	data millrace.Chain
	time time.Time
	n    int
}

func newFeed(t testing.TB) *feed {
	c := config
	c.Segments = 6
	c.Segment = 2 * time.Second
	c.MaxBytes = 1 << 30
	r := newRig(t, c).play("init")
	f := &feed{w: r.w, data: chain(make([]byte, 10_000)), time: time.Unix(1<<30, 0)}
	t.Cleanup(f.data.Release)
	return f
}

func (f *feed) next() bool {
	var c millrace.Chain
	f.data.SliceTo(&c, 0, 100)
	f.data.SliceTo(&c, 500, 10_000)
	fragment := hls.Fragment{Duration: 40 * time.Millisecond, Key: f.n%50 == 0,
		KeyNext: f.n%50 == 49, Time: f.time}
	f.n++
	f.time = f.time.Add(fragment.Duration)
	return f.w.Add(fragment, &c)
}

func BenchmarkAdd(b *testing.B) {
	f := newFeed(b)
	b.ReportAllocs()
	for b.Loop() {
		f.next()
	}
}

func BenchmarkPlaylist(b *testing.B) {
	f := newFeed(b)
	for range 1000 {
		f.next()
	}
	dst := f.w.AppendPlaylist(nil, false)
	b.ReportAllocs()
	b.ReportMetric(float64(len(dst)), "B/playlist")
	for b.Loop() {
		dst = f.w.AppendPlaylist(dst[:0], false)
	}
}

func BenchmarkPart(b *testing.B) {
	f := newFeed(b)
	for range 1000 {
		f.next()
	}
	msn, _ := f.w.Next()
	b.ReportAllocs()
	var c millrace.Chain
	for b.Loop() {
		if !f.w.Append(&c, hls.Object{Kind: hls.KindPart, MSN: msn - 1, Part: 5}) {
			b.Fatal("no part")
		}
		c.Release()
	}
}
