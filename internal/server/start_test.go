package server

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// With start=next a viewer begins with the key frame that comes after it, and not with what is kept: in either form, by
// either version of HTTP, and whoever else watches.
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

// A viewer who leaves while it waits for MP4 to be made of what is there gives back its place.
func TestWhoWaitsForTheNextKeyFrameMayLeave(t *testing.T) {
	f := serve(t, nil)
	p := f.publish("cam")
	p.send(newScript(2, 3, 500).whole())
	f.published("cam", 3000)
	st := f.registry.find("cam")
	st.await(1) // so that the making does not begin
	places := func(want int) func() bool {
		return func() bool {
			st.mu.Lock()
			defer st.mu.Unlock()
			return st.viewers == want
		}
	}
	w := f.ask("/live/cam.mp4?start=next", 0)
	eventually(t, "the viewer to enter", places(1))
	_ = w.conn.Close()
	eventually(t, "the viewer to leave", places(0))
	eventually(t, "no cursor is left", func() bool { return st.live.ring.Stats().Cursors == 0 })
	st.arrived()
	p.end()
}
