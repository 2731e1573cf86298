package live_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// smallBuffer is a socket buffer so small that a viewer that does not read is noticed after
// kilobytes.
const smallBuffer = 4096

// inStep publishes tags one by one, each after all watchers have got the previous one.
func inStep(t *testing.T, p *livetest.Publisher, tags [][]byte, watchers []*livetest.Watcher) {
	t.Helper()
	for i, tag := range tags {
		p.Send(tag)
		for n, w := range watchers {
			if got := w.Next(len(tag)); !bytes.Equal(got, tag) {
				t.Fatalf("tag %d: viewer %d got something else", i, n)
			}
		}
	}
}

// tight sets small allowances for viewers.
func tight(policy live.Policy) func(*live.Config) {
	return func(c *live.Config) {
		c.Latency = 0
		c.Unsent = smallBuffer
		c.LagPolicy, c.LagBytes = policy, 200<<10
	}
}

// allowances are the three allowances, each too small for a viewer that reads nothing.
var allowances = []struct {
	label  string
	reason string // in the log, for a viewer that is dropped
	moved  string // in the log, for a viewer that was moved
	set    func(*live.Config)
	pass   time.Duration // pause in the middle of the stream
}{
	{"lag_bytes", "behind by bytes", "lag_bytes", func(c *live.Config) { c.LagBytes = 200 << 10 },
		0},
	{"lag_frames", "behind by frames", "lag_frames", func(c *live.Config) { c.LagFrames = 50 }, 0},
	{"lag_time", "behind by time", "lag_time", func(c *live.Config) { c.LagTime = time.Second },
		time.Second},
}

// tightBy sets one small allowance for viewers.
func tightBy(policy live.Policy, set func(*live.Config)) func(*live.Config) {
	return func(c *live.Config) {
		tight(policy)(c)
		c.LagBytes, c.LagFrames, c.LagTime = 0, 0, 0
		set(c)
	}
}

// One viewer reads nothing. It is dropped when it is further behind than its allowance. The others
// lose no frame.
func TestStalledViewerIsDropped(t *testing.T) {
	t.Parallel()
	for _, allow := range allowances {
		t.Run(allow.label, func(t *testing.T) {
			f := serve(t, tightBy(live.Drop, allow.set))
			sc := newScript(20, 5, 8000)
			watchers := []*livetest.Watcher{f.Ask("/live/cam", 0), f.Ask("/live/cam", 0),
				f.Ask("/live/cam", 0)}
			stalled := f.Ask("/live/cam", smallBuffer)
			f.waiting("cam", 4)
			p := f.Publisher("cam")
			p.Send(sc.start())
			for _, w := range watchers {
				w.Begin()
				same(t, "the start", w.Next(len(sc.start())), sc.start())
			}
			inStep(t, p, sc.tags[:150], watchers)
			time.Sleep(allow.pass) // only the stalled viewer has unread frames
			inStep(t, p, sc.tags[150:], watchers)

			f.Logged("viewer is too far behind", `reason="`+allow.reason+`"`)
			f.Logged("viewer ended", `reason="`+allow.reason+`"`)
			metric := func(name string) string {
				return f.metric(name + `{reason="` + allow.label +
					`"}`)
			}
			eventually(t, "the metric", func() bool {
				return metric("millrace_viewers_dropped_total") == "1"
			})
			if got := metric("millrace_viewers_behind_total"); got != "1" {
				t.Errorf("seen behind: %s", got)
			}
			if n, _ := io.Copy(io.Discard, stalled.R); n > 200<<10 {
				t.Errorf("the stalled viewer was still given %d bytes", n)
			}
			p.End()
		})
	}
}

// With the other policy the viewer stays, and continues with whole tags at a keyframe when it reads
// again.
func TestStalledViewerSkips(t *testing.T) {
	t.Parallel()
	for _, allow := range allowances {
		t.Run(allow.label, func(t *testing.T) {
			f := serve(t, tightBy(live.Skip, allow.set))
			sc := newScript(20, 5, 8000)
			healthy := f.Ask("/live/cam", 0)
			stalled := f.Ask("/live/cam", smallBuffer)
			f.waiting("cam", 2)
			p := f.Publisher("cam")
			p.Send(sc.start())
			for _, w := range []*livetest.Watcher{healthy, stalled} {
				w.Begin()
				w.Next(len(sc.start()))
			}
			// These are more than a batch, which may already have been taken.
			inStep(t, p, sc.tags[:150], []*livetest.Watcher{healthy})
			// Only the stalled viewer has unread frames.
			time.Sleep(allow.pass)
			inStep(t, p, sc.tags[150:], []*livetest.Watcher{healthy})
			// It is too far behind, or has already been moved.
			f.Logged("level=WARN", "viewer=", "bytes=")
			eventually(t, "the API to say so", func() bool {
				return strings.Contains(f.api(), `"stalled":1`)
			})

			p.End()
			tags := cut(t, stalled.Rest())
			missed := jumps(t, sc, tags, 0)
			if missed == 0 {
				t.Fatal("nothing was skipped")
			}
			if !bytes.Equal(tags[len(tags)-1], sc.tags[len(sc.tags)-1]) {
				t.Error("the last tag is missing")
			}
			f.Logged("viewer ended", fmt.Sprintf("%d frames", missed), allow.moved)
			if got := f.metric(`millrace_frames_lost_total{reason="` + allow.label +
				`"}`); got != fmt.Sprint(missed) {
				t.Errorf("%s frames lost by the metrics, %d really", got, missed)
			}
		})
	}
}

// jumps checks that tags are the script's, in order, and that each gap is followed by a keyframe.
// It returns the number of missing tags, counted from tag next, or from the first tag if next is
// -1.
func jumps(t *testing.T, sc *script, tags [][]byte, next int) (missing int) {
	t.Helper()
	at := map[string]int{}
	for _, tag := range sc.config {
		at[string(tag)] = -1
	}
	for i, tag := range sc.tags {
		at[string(tag)] = i
	}
	for n, tag := range tags {
		if i, ok := at[string(tag)]; ok && i < 0 {
			// These are configuration tags, which also come before the keyframe to which a viewer
			// is moved.
			continue
		}
		i, ok := at[string(tag)]
		switch {
		case !ok:
			t.Fatalf("tag %d of what arrived is not the publisher's", n)
		case next >= 0 && i < next:
			t.Fatalf("tag %d came again", i)
		case next >= 0 && i > next:
			if tag[11] != 0x17 {
				t.Fatalf("continues at tag %d, which is no keyframe", i)
			}
			missing += i - next
		}
		next = i + 1
	}
	return missing
}

// A viewer that reads nothing for long is dropped under either policy, even within its allowance.
func TestStallTimeoutDropsViewers(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *live.Config) {
		// Long enough for a healthy viewer on a busy machine.
		c.Unsent, c.StallTimeout = smallBuffer, time.Second
	})
	sc := newScript(4, 5, 50_000)
	healthy := f.Ask("/live/cam", 0)
	f.Ask("/live/cam", smallBuffer)
	f.waiting("cam", 2)
	p := f.Publisher("cam")
	p.Send(sc.whole())
	healthy.Begin()
	same(t, "the healthy viewer", healthy.Next(len(sc.whole())), sc.whole())
	f.Logged("viewer ended", "reason=stalled")
	eventually(t, "the metric", func() bool {
		return f.metric(
			`millrace_viewers_dropped_total{reason="stalled"}`) == "1"
	})
	f.viewers(1)
	p.End()
}

// Bytes of an unknown format are never skipped in the middle: a viewer that is too far behind is
// dropped.
func TestUnknownFormatNeverSkips(t *testing.T) {
	f := serve(t, tight(live.Skip))
	healthy := f.Ask("/live/raw", 0)
	stalled := f.Ask("/live/raw", smallBuffer)
	f.waiting("raw", 2)
	p := f.Publisher("raw")
	piece := bytes.Repeat([]byte("raw bytes "), 1000)
	for i := range 40 {
		p.Send(piece)
		if i == 0 {
			healthy.Begin()
		}
		same(t, "the healthy viewer", healthy.Next(len(piece)), piece)
	}
	f.Logged("viewer ended", `reason="behind by bytes"`)
	stalled.Begin()
	got, err := io.ReadAll(stalled.Res.Body)
	if err == nil {
		t.Error("what was cut looks like the stream's proper end")
	}
	if whole := bytes.Repeat(piece, 40); !bytes.HasPrefix(whole, got) {
		t.Error("what the stalled viewer got is not the beginning of the stream")
	}
	p.End()
}

func TestDrainSendsQueuedFrames(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.Unsent = smallBuffer })
	sc := newScript(4, 5, 20_000)
	slow := f.Ask("/live/cam", smallBuffer)
	f.waiting("cam", 1)
	p := f.Publisher("cam")
	p.Send(sc.whole())
	f.published("cam", len(sc.whole())-len(sc.header))
	slow.Begin()

	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		f.stop()
	}()
	if res := p.Wait(); res.Status != http.StatusServiceUnavailable {
		t.Errorf("the publisher: %d %s", res.Status, res.Body)
	}
	// Publishers may learn of the end before the listener is closed.
	eventually(t, "a new viewer is refused", func() bool {
		return f.Get("/live/cam").Status == http.StatusServiceUnavailable
	})
	if _, err := f.Open("other", "test", live.Terms{}); err != error(refuse.ErrShutdown) {
		t.Errorf("a new publisher: %v", err)
	}
	// The viewer was accepted just before.
	if err := f.AwaitStream(t.Context(), "other"); err != error(refuse.ErrShutdown) {
		t.Errorf("a viewer without a stream: %v", err)
	}
	same(t, "the viewer", slow.Rest(), sc.whole())
	<-stopped
	f.Logged("publisher ended", "status=503")
	f.Logged("viewer ended", `reason="stream ended"`)
}

// A server that is told to end ends in time, with viewers of every kind: healthy ones, ones that
// wait for a publisher, and ones that read nothing, in each format, over HTTP/1 and HTTP/2.
func TestDrainEndsViewersOfEveryKind(t *testing.T) {
	t.Parallel()
	f := serve(t, func(c *live.Config) { c.Unsent = smallBuffer })
	sc := newScript(4, 5, 700_000)
	p, raw := f.Publisher("cam"), f.Publisher("raw")
	overH2 := f.PublisherBy(livetest.HTTP2(t, 64<<10), "h2")
	p.Send(sc.start())
	overH2.Send(sc.start())
	raw.Send([]byte("x"))
	for _, name := range []string{"cam", "h2", "raw"} {
		f.published(name, 1)
	}
	stalledOnes := 0
	for _, path := range []string{"/live/cam", "/live/cam.mp4", "/live/h2", "/live/h2.mp4",
		"/live/raw", "/live/none", "/live/none.mp4"} {
		for _, client := range []*http.Client{http.DefaultClient, livetest.HTTP2(t, 1<<20)} {
			go func() {
				if res, err := client.Get(f.URL(path)); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			}()
		}
		if strings.Contains(path, "none") {
			continue
		}
		f.Watcher(path, smallBuffer)
		res, err := livetest.HTTP2(t, 4<<10).Get(f.URL(path)) // and reads nothing
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		stalledOnes += 2
	}
	f.viewers(10 + stalledOnes)
	f.waiting("none", 4)
	p.Send(bytes.Join(sc.tags, nil))
	f.published("cam", len(sc.whole())-len(sc.header))
	f.stop()
	f.viewers(0)
	f.Logged("time is up")
	f.Logged("viewer ended", "stream=cam", `reason="drain timeout"`)
	if strings.Contains(f.Log.String(), "level=ERROR") {
		t.Error("there are errors in the log")
	}
	p.Wait()
	raw.Wait()
}

// tlsConfig returns a server's configuration. httptest adds its certificate.
func tlsConfig() *tls.Config { return &tls.Config{NextProtos: []string{"http/1.1"}} }

// askTLS is Ask over TLS.
func (f *fixture) askTLS(path string, rcvbuf int) *livetest.Watcher {
	return f.AskOn(tls.Client(nettest.Dial(f.T, f.Addr, rcvbuf),
		&tls.Config{InsecureSkipVerify: true}), path)
}

// A TLS connection of a dropped viewer is reset. Otherwise the kernel would try to deliver the rest
// for minutes.
func TestADroppedTLSViewerIsReset(t *testing.T) {
	f := serveTLS(t, func(c *live.Config) { c.StallTimeout = 50 * time.Millisecond }, tlsConfig())
	w := f.askTLS("/live/cam", smallBuffer)
	f.waiting("cam", 1)
	p, err := f.Open("cam", "test", live.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Answered()
	defer p.Close(nil)
	if err := p.ReadBody(bytes.NewReader(newScript(10, 10, 100_000).whole())); err != nil {
		t.Fatal(err)
	}
	f.Logged("viewer ended", "reason=stalled")
	_, err = io.Copy(io.Discard, w.Conn.(*tls.Conn).NetConn())
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the viewer reads to %v, want a reset", err)
	}
}

// A healthy viewer does not count as blocked, whichever way it is written to.
func TestHealthyViewersAreNotBlocked(t *testing.T) {
	sc := newScript(2, 5, 2000)
	for name, watch := range map[string]func(t *testing.T) (*fixture, *livetest.Watcher){
		"TCP": func(t *testing.T) (*fixture, *livetest.Watcher) {
			f := serve(t, nil)
			return f, f.Ask("/live/cam", 0)
		},
		"TLS": func(t *testing.T) (*fixture, *livetest.Watcher) {
			f := serveTLS(t, nil, tlsConfig())
			return f, f.askTLS("/live/cam", 0)
		},
		"HTTP/2": func(t *testing.T) (*fixture, *livetest.Watcher) {
			f := serve(t, nil)
			client := livetest.HTTP2(t, 1<<20)
			go func() {
				if res, err := client.Get(f.URL("/live/cam")); err == nil {
					defer res.Body.Close()
					_, _ = io.Copy(io.Discard, res.Body)
				}
			}()
			return f, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, w := watch(t)
			f.waiting("cam", 1)
			p, err := f.Open("cam", "test", live.Terms{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Answered()
			defer p.Close(nil)
			if err := p.ReadBody(bytes.NewReader(sc.whole())); err != nil {
				t.Fatal(err)
			}
			if w != nil {
				w.Begin()
				w.Next(len(sc.whole()))
			}
			f.viewers(1)
			eventually(t, "no viewer is blocked",
				func() bool { return f.metric("millrace_viewers_blocked") == "0" })
		})
	}
}
