package live_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/hlscheck"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A testStore is a SegmentStore in memory.
type testStore struct {
	mu      sync.Mutex
	objects map[string]int // sizes in bytes
	epoch   uint64
	facts   []byte
	away    bool
	hangs   bool // LoadState hangs
}

func (s *testStore) Save(stream string, o hls.Object, body *millrace.Chain) {
	defer body.Release()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[string]int{}
	}
	s.objects[stream+"/"+o.String()] = body.Len()
}

func (s *testStore) SaveState(_ string, epoch uint64, facts []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch >= s.epoch && !s.away {
		s.epoch, s.facts = epoch, facts
	}
}

func (s *testStore) LoadState(ctx context.Context, _ string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if s.away {
		return nil, errors.New("away")
	}
	return s.facts, nil
}

// A takeoverTest checks the playlists of cam from several hubs.
type takeoverTest struct {
	t       *testing.T
	store   testStore
	checker *hlscheck.Checker
}

func newTakeoverTest(t *testing.T) *takeoverTest {
	return &takeoverTest{t: t, checker: hlscheck.New()}
}

func (tt *takeoverTest) hub() *hubTest {
	return newHubTest(tt.t, func(c *live.Config) {
		c.HLS, c.PublisherReturn, c.HLSStore = hlsDefaults, 0, &tt.store
	})
}

// publish publishes the first 145 tags of cam in real time, and requests HLS in the meantime.
func (tt *takeoverTest) publish(h *hubTest, sc *script) *live.Publisher {
	tt.t.Helper()
	p := h.publish(sc.config...)
	h.pace(p, sc.tags[:100])
	go func() { _, _ = h.playlist(hls.Reload{}, false) }()
	h.pace(p, sc.tags[100:145])
	return p
}

// check checks the next playlist.
func (tt *takeoverTest) check(list string) *hlscheck.Media {
	tt.t.Helper()
	ps := hlscheck.Must(tt.checker.Media(list))
	// The playlist is from the store.
	if m := tt.checker.Playlist(); m.Ended && m.Segments[len(m.Segments)-1].Parts == nil {
		ps = hlscheck.Without(ps, "part-removed-early")
	}
	if len(ps) > 0 {
		tt.t.Fatalf("%v\n%s", ps, list)
	}
	return tt.checker.Playlist()
}

// watch publishes tags in real time, and checks playlists in the meantime.
func (tt *takeoverTest) watch(h *hubTest, p *live.Publisher, tags [][]byte) (m *hlscheck.Media) {
	tt.t.Helper()
	const step = 25
	for ; len(tags) > 0; tags = tags[min(step, len(tags)):] {
		h.pace(p, tags[:min(step, len(tags))])
		synctest.Wait()
		list, err := h.playlist(hls.Reload{}, false)
		if err != nil {
			tt.t.Fatal(err)
		}
		m = tt.check(list)
	}
	return m
}

// stored checks what players get while there is no owner.
func (tt *takeoverTest) stored() *hlscheck.Media {
	tt.t.Helper()
	master, media, err := hlslive.Stored(tt.store.facts)
	if err != nil {
		tt.t.Fatal(err)
	}
	if !strings.Contains(string(master.Text), "CODECS=") {
		tt.t.Errorf("the multivariant playlist is\n%s", master.Text)
	}
	return tt.check(string(media.Text))
}

// kill ends h without saving anything.
func (tt *takeoverTest) kill(h *hubTest, p *live.Publisher) {
	tt.store.away = true
	h.Close()
	h.done(p, nil)
	synctest.Wait()
	tt.store.away = false
}

// segmentParts returns the total duration of a segment's parts.
func segmentParts(s *hlscheck.Segment) (d time.Duration) {
	for _, p := range s.Parts {
		d += p.Duration
	}
	return d
}

// After its node was killed, a publisher moves to another node. The playlist continues there, with
// a gap for the incomplete segment.
func TestHLSTakeoverAfterKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tt := newTakeoverTest(t)
		a, sc := tt.hub(), newScript(60, 25, 1000)
		p := tt.publish(a, sc)
		before := tt.watch(a, p, sc.tags[145:840]) // the playlist lists parts of the next segment
		tt.kill(a, p)

		orphan := tt.stored()
		if len(orphan.Segments) != len(before.Segments) || orphan.Hint != "" || orphan.Ended {
			t.Errorf("%d segments are stored, %d were listed", len(orphan.Segments),
				len(before.Segments))
		}
		for _, s := range orphan.Segments {
			if tt.store.objects["cam/"+s.URI] == 0 || tt.store.objects["cam/"+s.Map] == 0 {
				t.Errorf("%s or %s is not stored", s.URI, s.Map)
			}
		}
		time.Sleep(5 * time.Second)

		b := tt.hub()
		p = tt.publish(b, sc)
		after := tt.watch(b, p, sc.tags[145:200])
		gap, first := after.Segment(before.Open.MSN), after.Segment(before.Open.MSN+1)
		if !gap.Gap || gap.Duration != segmentParts(&before.Open) || !first.Break ||
			first.Map == gap.Map ||
			first.Discontinuity != before.Open.Discontinuity+1 {
			t.Errorf("before: %+v\nafter: %+v", before, after)
		}
		tt.watch(b, p, sc.tags[200:1000])
		tt.kill(b, p)

		// The same again, before the third node has a segment.
		for range 2 {
			c := tt.hub()
			p = tt.publish(c, sc)
			m := tt.watch(c, p, sc.tags[145:150])
			if !m.Segments[len(m.Segments)-1].Gap {
				t.Errorf("no gap: %+v", m)
			}
			tt.kill(c, p)
		}
	})
}

// A publisher moves, or its node shuts down. No segment is missing, and the unfinished one is
// completed.
func TestHLSTakeoverAfterDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tt := newTakeoverTest(t)
		a, sc := tt.hub(), newScript(60, 25, 1000)
		p := tt.publish(a, sc)
		before := tt.watch(a, p, sc.tags[145:640])
		a.Close()
		a.done(p, nil)
		synctest.Wait()
		tt.stored()
		b := tt.hub()
		p = tt.publish(b, sc)
		after := tt.watch(b, p, sc.tags[145:200])
		s := after.Segment(before.Open.MSN)
		if s.Gap || s.Duration > 2*time.Second || !after.Segment(s.MSN+1).Break {
			t.Errorf("after the takeover: %+v, want segments without a gap", after)
		}
		tt.watch(b, p, sc.tags[200:600])
		// Nodes with other settings continue with those of the first node.
		if after.Target != before.Target || after.PartTarget != before.PartTarget {
			t.Errorf("the targets are those of %+v, want those of %+v", after, before)
		}
		b.Close()
		b.done(p, nil)
	})
}

// If a stream has ended, or long ago, only the numbers continue.
func TestHLSTakeoverTooLate(t *testing.T) {
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			tt := newTakeoverTest(t)
			a, sc := tt.hub(), newScript(60, 25, 1000)
			p := tt.publish(a, sc)
			before := tt.watch(a, p, sc.tags[145:640])
			if ends {
				a.done(p, nil)
				synctest.Wait()
				if !tt.stored().Ended {
					t.Error("no end is stored")
				}
				a.Close()
			} else {
				tt.kill(a, p)
				time.Sleep(time.Minute)
			}
			b := tt.hub()
			p = b.publish(sc.config...)
			b.pace(p, sc.tags[:200])
			list, err := b.playlist(hls.Reload{}, false)
			if err != nil {
				t.Fatal(err)
			}
			tt.checker = hlscheck.New()
			after := tt.check(list)
			if after.Sequence <= before.Open.MSN ||
				after.Discontinuities <= before.Open.Discontinuity || after.Segments[0].Break {
				t.Errorf("before: %+v\nafter: %+v", before, after)
			}
			b.Close()
			b.done(p, nil)
		})
	}
}

// Failures of the store do not affect the stream.
func TestHLSStoreFails(t *testing.T) {
	const good = `{"Target":2000000000,"Part":200000000,"Segments":[{"MSN":7,"Time":"2000-01-01T00:00:00Z","Duration":1000000000}],` +
		`"Next":{"Epoch":1,"MSN":8},"Master":"#EXTM3U\n"}`
	if _, _, err := hlslive.Stored([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]*testStore{
		"away": {away: true}, "hangs": {hangs: true}, "empty": {}, "no JSON": {facts: []byte("{")},
		"other segments": {facts: []byte(strings.Replace(good, `"MSN":8`, `"MSN":9`, 1))},
		"no target": {facts: []byte(strings.Replace(good, `"Target":2000000000`, `"Target":1`,
			1))},
		"long segment": {facts: []byte(strings.Replace(good, `"Duration":1000000000`,
			`"Duration":9000000000`, 1))},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := hlslive.Stored(store.facts); err == nil {
				t.Error("playlists of nothing")
			}
			synctest.Test(t, func(t *testing.T) {
				h := newHubTest(t, func(c *live.Config) { c.HLS, c.HLSStore = hlsDefaults, store })
				sc := newScript(10, 25, 1000)
				p := h.publish(sc.config...)
				h.pace(p, sc.tags[:200])
				list, err := h.playlist(hls.Reload{}, false)
				if err != nil || hint(t, list).MSN == 8 {
					t.Errorf("%v, want the playlist to continue without the store\n%s", err, list)
				}
				h.Close()
				h.done(p, nil)
			})
		})
	}
}

// A fenceTest is a cluster of one node whose lease may not be current.
type fenceTest struct{ stopped, elsewhere atomic.Bool }

func (f *fenceTest) Claim(context.Context, string) (live.Lease, error) { return f, nil }
func (f *fenceTest) Want(string)                                       {}
func (f *fenceTest) IsElsewhere(context.Context, string) bool          { return f.elsewhere.Load() }
func (f *fenceTest) Reachable() bool                                   { return true }
func (f *fenceTest) Epoch() uint64                                     { return 1 }
func (f *fenceTest) Current() bool                                     { return !f.stopped.Load() }
func (f *fenceTest) Held() bool                                        { return true }
func (f *fenceTest) Tell()                                             {}
func (f *fenceTest) Release()                                          {}

// publish starts a stream at a Hub of the cluster, and its HLS.
func (f *fenceTest) publish(t *testing.T) (*hubTest, *live.Publisher) {
	h := newHubTest(t, func(c *live.Config) { c.HLS, c.Cluster = hlsDefaults, f })
	sc := newScript(10, 25, 1000)
	p := h.publish(sc.config...)
	h.pace(p, sc.tags[:145])
	if _, err := h.playlist(hls.Reload{}, false); err != nil {
		t.Fatal(err)
	}
	return h, p
}

// When a stream ends, its lease is released before its window has the last fragment. In between,
// players are not sent to another node.
func TestHLSIsNotFencedAtTheEndOfAStream(t *testing.T) {
	for _, current := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var f fenceTest
			h, p := f.publish(t)
			f.stopped.Store(!current)
			w := h.GiveUp("cam")
			f.stopped.Store(true) // the lease is released
			_, err := w.Playlist(t.Context(), hlslive.MediaName, hls.Reload{}, false)
			if (err == hlslive.ErrElsewhere) == current || current && err != nil {
				t.Errorf("the lease was current: %v, and a player gets %v", current, err)
			}
			h.Close()
			h.done(p, nil)
		})
	}
}

// A stream ends at this node, and is published again at another node. Players of this node, which
// still has the earlier playlist, are then sent to the other node, except for earlier segments.
func TestHLSOfStreamThatContinuesElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fenceTest
		h, p := f.publish(t)
		h.done(p, nil)
		list := ""
		for wait := 0; !strings.HasSuffix(list, "#EXT-X-ENDLIST\n"); wait++ {
			var err error
			if list, err = h.playlist(hls.Reload{}, false); err != nil || wait == 1000 {
				t.Fatalf("%v, want the end of\n%s", err, list)
			}
			time.Sleep(100 * time.Millisecond)
		}
		_, name, _ := strings.Cut(list, "EXTINF:")
		before, ok := hls.ParseObject(strings.Split(name, "\n")[1])
		if !ok {
			t.Fatalf("no segment in\n%s", list)
		}
		next := before
		next.Epoch++
		get := func(o hls.Object) error {
			var c millrace.Chain
			defer c.Release()
			return live.NewHLS(h.Hub).Object(t.Context(), "cam", o, &c)
		}
		if err := get(next); refuse.Status(err) != http.StatusNotFound {
			t.Errorf("%v, want the segment %v not to be found", err, next)
		}
		f.elsewhere.Store(true)
		if _, err := h.playlist(hls.Reload{}, false); err != hlslive.ErrElsewhere {
			t.Errorf("the playlist: %v, want that of the other node", err)
		}
		if err := get(next); err != hlslive.ErrElsewhere {
			t.Errorf("%v: %v, want that of the other node", next, err)
		}
		if err := get(before); err != nil {
			t.Errorf("%v: %v, want the segment of this node", before, err)
		}
		h.Close()
	})
}
