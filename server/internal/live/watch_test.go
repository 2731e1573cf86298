package live_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

func TestHeadAnswersTheHeaders(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 2, 100)
	p := f.Publisher("cam")
	p.Send(sc.whole())
	f.published("cam", 100)
	for path, want := range map[string]string{"/live/cam": "video/x-flv",
		"/live/cam.flv": "video/x-flv", "/live/cam.mp4": "video/mp4"} {
		res := f.Request("HEAD", path, "")
		if res.Status != 200 || res.Header.Get("Content-Type") != want {
			t.Errorf("HEAD %s: %d %s, want %s", path, res.Status, res.Header.Get("Content-Type"),
				want)
		}
	}
	if n := f.Viewers(); n != 0 {
		t.Errorf("%d viewers after HEAD", n)
	}
	p.End()
}

func TestUnavailableFormatsAre406(t *testing.T) {
	f := serve(t, nil)
	raw := f.Publisher("raw")
	raw.Send([]byte("bytes"))
	f.published("raw", 5)
	odd := f.Publisher("odd")
	odd.Send([]byte("FLV\x01\x01\x00\x00\x00\x09\x00\x00\x00\x00"))
	// After that it is known that no other track will come.
	for _, at := range []uint32{0, flvstream.TrackWait} {
		odd.Send(flvTag(9, at, []byte("\x12Sorenson")))
	}
	f.published("odd", 2*24)
	for path, want := range map[string]int{
		"/live/raw.flv": 406, "/live/raw.mp4": 406, "/live/odd.mp4": 406,
	} {
		if res := f.Get(path); res.Status != want {
			t.Errorf("GET %s: %d %s, want %d", path, res.Status, res.Body, want)
		}
	}
	raw.End()
	odd.End()
}

func TestLimitsOnStreamsAndViewers(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.MaxStreams, c.MaxViewers, c.MaxStreamViewers = 1, 2, 1 })
	p := f.Publisher("one")
	p.Send([]byte("x"))
	f.published("one", 1)
	if res := f.Publisher("two").Wait(); res.Status != 503 ||
		!strings.Contains(res.Body, "--max-streams") {
		t.Errorf("second stream: %d %s", res.Status, res.Body)
	}
	w := f.Watcher("/live/one", 0)
	if res := f.Get("/live/one"); res.Status != 503 ||
		!strings.Contains(res.Body, "--max-stream-viewers") {
		t.Errorf("second viewer: %d %s", res.Status, res.Body)
	}
	waits := f.Ask("/live/other", 0)
	f.waiting("other", 1)
	if res := f.Get("/live/one"); res.Status != 503 ||
		!strings.Contains(res.Body, "--max-viewers") {
		t.Errorf("third viewer in all: %d %s", res.Status, res.Body)
	}
	_ = waits.Conn.Close()
	eventually(t, "the one who waited to be gone", func() bool {
		return f.Admitted() == 1
	})
	p.End()
	w.Rest()
}

func TestViewersWaitForAPublisher(t *testing.T) {
	t.Run("in vain", func(t *testing.T) {
		f := serve(t, func(c *live.Config) { c.ViewerWait = 20 * time.Millisecond })
		if res := f.Get("/live/cam"); res.Status != 404 {
			t.Errorf("%d %s, want 404", res.Status, res.Body)
		}
		if n := f.Names(); n != 0 {
			t.Errorf("%d names are still waited for", n)
		}
	})
	t.Run("not at all", func(t *testing.T) {
		f := serve(t, func(c *live.Config) { c.ViewerWait = 0 })
		if res := f.Get("/live/cam"); res.Status != 404 {
			t.Errorf("%d %s, want 404", res.Status, res.Body)
		}
	})
	t.Run("until the server stops", func(t *testing.T) {
		f := serve(t, nil)
		w := f.Ask("/live/cam", 0)
		f.waiting("cam", 1)
		f.stop()
		res, err := http.ReadResponse(w.R, nil)
		if err != nil || res.StatusCode != 503 {
			t.Errorf("%v, %v, want status 503", res, err)
		}
	})
	t.Run("for one who sends nothing yet", func(t *testing.T) {
		f := serve(t, nil)
		p := f.Publisher("cam")
		eventually(t, "the claim", func() bool {
			return f.AnyStream("cam") != nil
		})
		w := f.Ask("/live/cam", 0)
		f.waiting("cam", 1)
		p.Send([]byte("x"))
		w.Begin()
		w.Next(1)
		p.End()
	})
}

// A viewer waits for the publisher, and then finds the stream full. It leaves nothing in the ring.
func TestRefusedWaitersLeaveNoCursor(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.MaxStreamViewers = 1; c.LagPolicy = live.Drop })
	for range 4 {
		f.Ask("/live/x.flv", 0)
	}
	f.waiting("x", 4)
	p := f.Publisher("x")
	p.Send(newScript(3, 10, 2000).whole())
	eventually(t, "one viewer, and one cursor", func() bool {
		st := f.LookUp("x")
		return st != nil && st.Forms() != nil && f.Viewers() == 1 && st.Forms().Stats().Cursors == 1
	})
	p.End()
}

// With start=next a viewer starts with the next keyframe instead of the kept one: in either format,
// over either version of HTTP, and together with other viewers.
func TestViewersWhoStartAtTheNextKeyFrame(t *testing.T) {
	for _, version := range []string{"HTTP/1", "HTTP/2"} {
		for _, before := range []string{"", "/live/cam.flv", "/live/cam.mp4",
			"/live/cam.mp4?start=next"} {
			t.Run(version+" "+before, func(t *testing.T) {
				f := serve(t, nil)
				sc := newScript(4, 10, 500)
				under := sc.keys[2] + 7 // the third GOP is unfinished
				p := f.Publisher("cam")
				p.Send(bytes.Join([][]byte{sc.start(), bytes.Join(sc.tags[:under], nil)}, nil))
				f.published("cam", len(sc.start())-len(sc.header)+len(bytes.Join(sc.tags[:under],
					nil)))
				ask := func(path string) io.Reader { return f.Watcher(path, 0).Res.Body }
				if client := livetest.HTTP2(t, 1<<20); version == "HTTP/2" {
					ask = func(path string) io.Reader { return askBy(t, client, f.URL(path)) }
				}
				if before != "" {
					ask(before)
					f.viewers(1)
				}
				flv, mp4 := ask("/live/cam?start=next"), ask("/live/cam.mp4?start=next")
				last := ask("/live/cam.mp4?start=last")
				f.viewers(3 + min(len(before), 1))
				p.Send(bytes.Join(sc.tags[under:], nil))
				p.End()
				same(t, "FLV", allOf(t, flv), sc.from(sc.keys[3]))
				startsAt(t, "MP4", allOf(t, mp4), 3*10*40)
				startsAt(t, "MP4 from the last keyframe", allOf(t, last), 2*10*40)
			})
		}
	}
}

// askBy sends a request and returns the body of the response, which is closed when the test ends.
func askBy(t *testing.T, client *http.Client, url string) io.Reader {
	t.Helper()
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, want 200", url, res.StatusCode)
	}
	return res.Body
}

func allOf(t *testing.T, r io.Reader) []byte {
	t.Helper()
	p, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("after %d bytes: %v", len(p), err)
	}
	return p
}

// startsAt checks that the video of an MP4 file begins with a keyframe at the given time, in ms.
func startsAt(t *testing.T, what string, file []byte, at int64) {
	t.Helper()
	list := stretches(t, file)
	contiguous(t, list)
	if len(list) == 0 || list[0].track != 1 || list[0].at != at {
		t.Errorf("%s: %d stretches, which do not begin with a picture at %d ms: %+v",
			what, len(list), at, list[:min(1, len(list))])
	}
}

// A viewer that waited before the stream gets all of it.
func TestStartAtTheNextKeyFrameOfAStreamToCome(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(2, 5, 500)
	flv, mp4 := f.Ask("/live/cam?start=next", 0), f.Ask("/live/cam.mp4?start=next", 0)
	f.waiting("cam", 2)
	p := f.Publisher("cam")
	p.Send(sc.whole())
	p.End()
	flv.Begin()
	same(t, "FLV", flv.Rest(), sc.whole())
	mp4.Begin()
	startsAt(t, "MP4", mp4.Rest(), 0)
}

// A bound out of range is refused, and the answer names the range.
func TestBadBound(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.ViewerWait = 0 })
	for query, want := range map[string]int{
		"?bound=2s": 400, "?bound=": 400, "?bound=200": 400, "?bound=-1s": 400,
		"?bound=200ms": 404, "?bound=1ms": 404, "?bound=200ms&start=next": 404,
	} {
		res := f.Get("/live/cam" + query)
		if res.Status != want || want == 400 && !strings.Contains(res.Body, "from 0s to 1s") {
			t.Errorf("%s: %d %s, want %d", query, res.Status, res.Body, want)
		}
	}
}

func TestBadStart(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.ViewerWait = 0 })
	for query, want := range map[string]int{
		"?start=now": 400, "?start=": 400, "?start=Next": 400, "?start=next": 404,
		"?start=last": 404, "?started=now": 404,
	} {
		for _, ext := range []string{"", ".flv", ".mp4"} {
			res := f.Get("/live/cam" + ext + query)
			if res.Status != want || want == 400 &&
				!(strings.Contains(res.Body, "last") && strings.Contains(res.Body, "next")) {
				t.Errorf("%s%s: %d %s, want %d", ext, query, res.Status, res.Body, want)
			}
		}
	}
}
