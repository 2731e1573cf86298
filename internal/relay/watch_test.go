package relay

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// request makes a request with headers given as "Name: value".
func (f *fixture) request(method, path, body string, header ...string) response {
	f.t.Helper()
	req, err := http.NewRequest(method, f.url(path), strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, h := range header {
		name, value, ok := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
		} else if ok {
			req.Header.Set(name, value)
		}
	}
	return f.do(req)
}

func TestHeadAnswersTheHeaders(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(1, 2, 100)
	p := f.publish("cam")
	p.send(sc.whole())
	f.published("cam", 100)
	for path, want := range map[string]string{"/live/cam": "video/x-flv", "/live/cam.flv": "video/x-flv", "/live/cam.mp4": "video/mp4"} {
		res := f.request("HEAD", path, "")
		if res.status != 200 || res.header.Get("Content-Type") != want {
			t.Errorf("HEAD %s: %d %s, want %s", path, res.status, res.header.Get("Content-Type"), want)
		}
	}
	if n := f.Viewers(); n != 0 {
		t.Errorf("%d viewers after HEAD", n)
	}
	p.end()
}

func TestFormsThatAStreamCannotBeHadIn(t *testing.T) {
	f := serve(t, nil)
	raw := f.publish("raw")
	raw.send([]byte("bytes"))
	f.published("raw", 5)
	odd := f.publish("odd")
	odd.send([]byte("FLV\x01\x01\x00\x00\x00\x09\x00\x00\x00\x00"))
	for _, at := range []uint32{0, hopeWait} { // then it is known that nothing else will come
		odd.send(flvTag(9, at, []byte("\x12Sorenson")))
	}
	f.published("odd", 2*24)
	for path, want := range map[string]int{
		"/live/raw.flv": 406, "/live/raw.mp4": 406, "/live/odd.mp4": 406,
	} {
		if res := f.get(path); res.status != want {
			t.Errorf("GET %s: %d %s", path, res.status, res.body)
		}
	}
	raw.end()
	odd.end()
}

func TestLimitsOnStreamsAndViewers(t *testing.T) {
	f := serve(t, func(c *Config) { c.MaxStreams, c.MaxViewers, c.MaxStreamViewers = 1, 2, 1 })
	p := f.publish("one")
	p.send([]byte("x"))
	f.published("one", 1)
	if res := f.publish("two").wait(); res.status != 503 || !strings.Contains(res.body, "--max-streams") {
		t.Errorf("second stream: %d %s", res.status, res.body)
	}
	w := f.watch("/live/one", 0)
	if res := f.get("/live/one"); res.status != 503 || !strings.Contains(res.body, "--max-stream-viewers") {
		t.Errorf("second viewer: %d %s", res.status, res.body)
	}
	waits := f.ask("/live/other", 0)
	f.waiting("other", 1)
	if res := f.get("/live/one"); res.status != 503 || !strings.Contains(res.body, "--max-viewers") {
		t.Errorf("third viewer in all: %d %s", res.status, res.body)
	}
	_ = waits.conn.Close()
	eventually(t, "the one who waited to be gone", func() bool {
		return f.admitted.Held() == 1
	})
	p.end()
	w.rest()
}

func TestViewersWaitForAPublisher(t *testing.T) {
	t.Run("in vain", func(t *testing.T) {
		f := serve(t, func(c *Config) { c.ViewerWait = 20 * time.Millisecond })
		if res := f.get("/live/cam"); res.status != 404 {
			t.Errorf("%d %s", res.status, res.body)
		}
		if n := len(f.Hub.waiting); n != 0 {
			t.Errorf("%d names are still waited for", n)
		}
	})
	t.Run("not at all", func(t *testing.T) {
		f := serve(t, func(c *Config) { c.ViewerWait = 0 })
		if res := f.get("/live/cam"); res.status != 404 {
			t.Errorf("%d %s", res.status, res.body)
		}
	})
	t.Run("until the server stops", func(t *testing.T) {
		f := serve(t, nil)
		w := f.ask("/live/cam", 0)
		f.waiting("cam", 1)
		f.stop()
		res, err := http.ReadResponse(w.r, nil)
		if err != nil || res.StatusCode != 503 {
			t.Errorf("%v, %v", res, err)
		}
	})
	t.Run("for one who sends nothing yet", func(t *testing.T) {
		f := serve(t, nil)
		p := f.publish("cam")
		eventually(t, "the claim", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.streams["cam"] != nil
		})
		w := f.ask("/live/cam", 0)
		f.waiting("cam", 1)
		p.send([]byte("x"))
		w.begin()
		w.read(1)
		p.end()
	})
}

// A viewer who has waited for the publisher and then finds the stream full leaves nothing behind in the ring.
func TestRefusedWaitersLeaveNoCursor(t *testing.T) {
	f := serve(t, func(c *Config) { c.MaxStreamViewers = 1; c.LagPolicy = Drop })
	for range 4 {
		f.ask("/live/x.flv", 0)
	}
	f.waiting("x", 4)
	p := f.publish("x")
	p.send(newScript(3, 10, 2000).whole())
	eventually(t, "one viewer, and one cursor", func() bool {
		st := f.lookUp("x")
		return st != nil && st.live != nil && f.Viewers() == 1 && st.live.ring.Stats().Cursors == 1
	})
	p.end()
}

// With start=next a viewer begins with the key frame that comes after it, and not with what is kept: in either form, by
// either version of HTTP, and with other viewers beside it.
func TestViewersWhoStartAtTheNextKeyFrame(t *testing.T) {
	for _, version := range []string{"HTTP/1", "HTTP/2"} {
		for _, before := range []string{"", "/live/cam.flv", "/live/cam.mp4", "/live/cam.mp4?start=next"} {
			t.Run(version+" "+before, func(t *testing.T) {
				f := serve(t, nil)
				sc := newScript(4, 10, 500)
				under := sc.keys[2] + 7 // the third group is under way
				p := f.publish("cam")
				p.send(bytes.Join([][]byte{sc.start(), bytes.Join(sc.tags[:under], nil)}, nil))
				f.published("cam", len(sc.start())-len(sc.header)+len(bytes.Join(sc.tags[:under], nil)))
				ask := func(path string) io.Reader { return f.watch(path, 0).res.Body }
				if client := h2(t, 1<<20); version == "HTTP/2" {
					ask = func(path string) io.Reader { return askBy(t, client, f.url(path)) }
				}
				if before != "" {
					ask(before)
					f.viewers(1)
				}
				flv, mp4 := ask("/live/cam?start=next"), ask("/live/cam.mp4?start=next")
				last := ask("/live/cam.mp4?start=last")
				f.viewers(3 + min(len(before), 1))
				p.send(bytes.Join(sc.tags[under:], nil))
				p.end()
				same(t, "FLV", allOf(t, flv), sc.from(sc.keys[3]))
				startsAt(t, "MP4", allOf(t, mp4), 3*10*40)
				startsAt(t, "MP4 for who does not ask for it", allOf(t, last), 2*10*40)
			})
		}
	}
}

// askBy makes a request and returns the body of its answer, which ends with the test.
func askBy(t *testing.T, client *http.Client, url string) io.Reader {
	t.Helper()
	res, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d", url, res.StatusCode)
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

// startsAt checks that the pictures of an MP4 file begin with a key frame at the given time, in ms.
func startsAt(t *testing.T, what string, file []byte, at int64) {
	t.Helper()
	list := stretches(t, file)
	contiguous(t, list)
	if len(list) == 0 || list[0].track != 1 || list[0].at != at {
		t.Errorf("%s: %d stretches, which do not begin with a picture at %d ms: %+v",
			what, len(list), at, list[:min(1, len(list))])
	}
}

// Who was there before the stream gets all of it: there is nothing that it would be behind by.
func TestStartAtTheNextKeyFrameOfAStreamToCome(t *testing.T) {
	f := serve(t, nil)
	sc := newScript(2, 5, 500)
	flv, mp4 := f.ask("/live/cam?start=next", 0), f.ask("/live/cam.mp4?start=next", 0)
	f.waiting("cam", 2)
	p := f.publish("cam")
	p.send(sc.whole())
	p.end()
	flv.begin()
	same(t, "FLV", flv.rest(), sc.whole())
	mp4.begin()
	startsAt(t, "MP4", mp4.rest(), 0)
}

func TestBadStart(t *testing.T) {
	f := serve(t, func(c *Config) { c.ViewerWait = 0 })
	for query, want := range map[string]int{
		"?start=now": 400, "?start=": 400, "?start=Next": 400, "?start=next": 404, "?start=last": 404, "?started=now": 404,
	} {
		for _, ext := range []string{"", extFLV, extMP4} {
			res := f.get("/live/cam" + ext + query)
			if res.status != want || want == 400 && !(strings.Contains(res.body, "last") && strings.Contains(res.body, "next")) {
				t.Errorf("%s%s: %d %s", ext, query, res.status, res.body)
			}
		}
	}
}
