package hlscheck

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A server serves a stream and breaks one rule.
type server struct {
	fault string

	mu      sync.Mutex
	s       stream
	changed chan struct{} // closed when parts are added
	fetches map[string]int
}

func newServer(fault string) *server {
	s := &server{fault: fault, changed: make(chan struct{}), fetches: map[string]int{},
		s: stream{parts: 5*perSegment + 2, window: 9, breaks: map[int]bool{17: true}}}
	if fault == "part-removed-early" {
		s.s.within = -1
	}
	return s
}

// advance adds the next part, or ends the stream.
func (s *server) advance(end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end {
		s.s.ended = true
	} else {
		s.s.parts++
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// publish adds parts in real time up to the given number, and ends the stream.
func (s *server) publish(parts int) {
	for range parts - s.s.parts {
		time.Sleep(partSecs * 1e9)
		if s.fault == "part-late" && s.s.parts == 30 {
			time.Sleep(1.1e9 - partSecs*1e9)
		}
		s.advance(false)
	}
	s.advance(true)
}

// wait waits until the stream has more than i parts, or has ended.
func (s *server) wait(ctx context.Context, i int) bool {
	for {
		s.mu.Lock()
		ready, changed := s.s.parts > i || s.s.ended, s.changed
		s.mu.Unlock()
		if ready {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	if strings.Contains(r.URL.Path, "/narrow/") {
		s.mu.Lock()
		s.s.window = 4
		s.mu.Unlock()
	}
	switch {
	case name == "index.m3u8":
		text := multivariant
		if s.fault == "bandwidth-low" {
			text = strings.Replace(text, "BANDWIDTH=2000000,AVERAGE-BANDWIDTH=1500000",
				"BANDWIDTH=1000", 1)
		}
		s.send(w, text)
	case name == "media.m3u8":
		s.media(w, r)
	case strings.HasSuffix(name, ".mp4"):
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(name, "e-i"), ".mp4"))
		data := initBytes(n)
		if s.fault == "init-boxes" {
			data = data[len(mp4Box("ftyp", make([]byte, 12))):]
		}
		w.Write(data)
	default:
		s.object(w, r, name)
	}
}

func (s *server) send(w http.ResponseWriter, text string) {
	if s.fault == "gzip" {
		w.Write([]byte(text))
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	z.Write([]byte(text))
	z.Close()
}

func (s *server) media(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	msn, err := strconv.Atoi(q.Get("_HLS_msn"))
	part, _ := strconv.Atoi(q.Get("_HLS_part"))
	s.mu.Lock()
	next, ended := s.s.parts, s.s.ended
	s.mu.Unlock()
	wanted := (msn-firstMSN)*perSegment + part
	switch {
	case q.Has("_HLS_part") && err != nil, wanted > next+6 && !ended:
		http.Error(w, "bad", http.StatusBadRequest)
		return
	case s.fault == "reload-early":
	case q.Has("_HLS_msn") && !s.wait(r.Context(), wanted):
		return
	}
	s.mu.Lock()
	text := s.s.render(q.Get("_HLS_skip") == "YES" && s.fault != "skip-ignored" && !s.s.ended)
	s.mu.Unlock()
	s.send(w, text)
}

func (s *server) object(w http.ResponseWriter, r *http.Request, name string) {
	var msn, k int
	if n, _ := fmt.Sscanf(name, "e-%d.%d.m4s", &msn, &k); n == 0 {
		http.NotFound(w, r)
		return
	} else if n == 1 {
		k = -1
	}
	s.mu.Lock()
	s.fetches[name]++
	again, parts := s.fetches[name] > 1, s.s.parts
	s.mu.Unlock()
	i := (msn-firstMSN)*perSegment + max(k, 0)
	switch {
	case s.fault == "object-missing" && i%5 == 0, s.fault == "hint-unavailable" &&
		i >= parts, i > parts:
		http.NotFound(w, r)
		return
	case !s.wait(r.Context(), i):
		return
	}
	var data []byte
	from, to := i, i+1
	if k < 0 {
		to = i + perSegment
	}
	for j := from; j < to; j++ {
		n := j
		if s.fault == "decode-time" && j%7 == 0 {
			n = 0
		}
		data = append(data, partBytes(n)...)
	}
	if s.fault == "object-changed" && again || s.fault == "parts-differ" && k < 0 {
		data[len(data)-1]++
	}
	if s.fault == "media-boxes" {
		data = bytes.ReplaceAll(data, []byte("tfdt"), []byte("free"))
	}
	w.Write(data)
}

// A handlerTransport serves requests without a network, so that synctest's time can be used.
type handlerTransport struct{ http.Handler }

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	t.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

const testURL = "http://example.test/live/s/index.m3u8"

// follow runs a client on a stream that ends after fifteen segments.
func follow(t *testing.T, fault string, c Client) Stats {
	t.Helper()
	var stats Stats
	synctest.Test(t, func(t *testing.T) {
		s := newServer(fault)
		// The existing parts get dates in the past.
		time.Sleep(time.Until(epoch.Add(time.Duration(float64(s.s.parts) * partSecs * 1e9))))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		c.HTTP = &http.Client{Transport: handlerTransport{s}}
		if c.URL == "" {
			c.URL = testURL
		}
		var published sync.WaitGroup
		published.Go(func() { s.publish(15 * perSegment) })
		var err error
		if stats, err = c.Run(ctx); (err != nil) != (fault == "reload-early") {
			t.Errorf("%v, want an error only for early reloads", err)
		}
		published.Wait()
	})
	return stats
}

// media returns the bytes that a client gets, starting with a part.
func media(from int) (b []byte) {
	for i := from; i < 15*perSegment; i++ {
		if i == from || i == 7*perSegment {
			b = append(b, initBytes(i/(7*perSegment))...)
		}
		b = append(b, partBytes(i)...)
	}
	return b
}

// TestClient follows a correct stream in each way. The client receives the stream, and finds no
// mistake.
func TestClient(t *testing.T) {
	for _, tc := range []struct {
		name  string
		c     Client
		from  int // first part
		stats Stats
	}{
		// Parts 0 and 1 of segment 15 are listed and last 0.5 s each. PART-HOLD-BACK of 1.5 s
		// begins in segment 14.
		{"parts", Client{Timing: true}, 16, Stats{Parts: 44}},
		{"verify", Client{Verify: 1, FromStart: true, Timing: true}, 0,
			Stats{Parts: 52, Segments: 2, Compared: 13}},
		{"hints", Client{Hints: true, Verify: 1, Timing: true}, 16,
			Stats{Parts: 44, Hinted: 38, Compared: 11}},
		{"deltas", Client{Delta: true, Hints: true}, 16, Stats{Parts: 44, Hinted: 38}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			objects, c := 0, tc.c
			c.Output, c.Object = &out, func(o Object) { objects++ }
			stats := follow(t, "", c)
			if len(stats.Problems) > 0 || stats.Missed > 0 {
				t.Errorf("the player found mistakes: %v", stats)
			}
			if want := media(tc.from); !bytes.Equal(out.Bytes(), want) {
				t.Errorf("got %d bytes, want %d", out.Len(), len(want))
			}
			if stats.Parts != tc.stats.Parts || stats.Segments != tc.stats.Segments ||
				stats.Hinted != tc.stats.Hinted ||
				stats.Compared != tc.stats.Compared || stats.Bytes != int64(out.Len()) ||
				objects != stats.Parts+stats.Segments+2 {
				t.Errorf("%v, want the counts of the case", stats)
			}
			if live := !c.FromStart; stats.Latency.Min < 0 || stats.Latency.Max > 20*time.Second ||
				live && stats.Latency.Max > 3*time.Second {
				t.Errorf("the latency is %v", stats.Latency)
			}
			if (stats.Deltas > 0) != c.Delta || (stats.Again > 0) != (c.Verify > 0) {
				t.Errorf("%v, want deltas and repeats as configured", stats)
			}
		})
	}
}

// TestClientRules uses servers that break one rule each.
func TestClientRules(t *testing.T) {
	for _, rule := range clientRules {
		t.Run(rule, func(t *testing.T) {
			c := Client{Verify: 1, Delta: true, Hints: true, Timing: true}
			if rule == "object-missing" {
				c.Hints = false // hints would break another rule
			}
			if rule == "object-changed" {
				c.Verify = 2
			}
			stats := follow(t, rule, c)
			if got := slices.Sorted(maps.Keys(stats.Counts)); !slices.Equal(got, []string{rule}) {
				t.Errorf("%v, want the one rule that is broken", stats)
			}
			if rule == "object-missing" && stats.Missed == 0 {
				t.Error("nothing is missed")
			}
		})
	}
}

var clientRules = []string{"gzip", "reload-early", "part-late", "skip-ignored", "object-missing",
	"object-changed", "parts-differ", "hint-unavailable", "init-boxes", "media-boxes",
	"decode-time", "bandwidth-low"}

// TestMissed is slow once, and continues with the oldest segment that is left.
func TestMissed(t *testing.T) {
	var last Object
	stats := follow(t, "", Client{Object: func(o Object) {
		if o.MSN == 17 && o.Part == 1 {
			time.Sleep(14*time.Second + 800*time.Millisecond)
		}
		last = o
	}, URL: strings.Replace(testURL, "s/", "narrow/", 1)})
	// Then 29 parts follow the second part of segment 17: segment 24 is unfinished, and the four
	// before it are listed.
	if stats.Missed != 20-17 || len(stats.Problems) > 0 || last.MSN != 24 {
		t.Errorf("%v, last %d.%d, want 3 missed and the last segment 24", stats, last.MSN,
			last.Part)
	}
}

// A player that has missed a discontinuity notices it at the next segment.
func TestBreakIsMissed(t *testing.T) {
	f := newFollower(&Client{})
	for i, s := range []struct {
		number uint64
		tag    bool
		want   bool
	}{
		{number: 0}, {number: 1, tag: true, want: true}, {number: 1, tag: true},
		{number: 2, want: true}, {number: 2},
	} {
		if got := f.isBreak(&Segment{Discontinuity: s.number, Break: s.tag}); got != s.want {
			t.Errorf("object %d: %v, want %v", i, got, s.want)
		}
	}
}

// TestBoxes checks invalid initialization sections and parts.
func TestBoxes(t *testing.T) {
	ftyp, moov := mp4Box("ftyp", u32(0, 0)), mp4Box("moov", mp4Box("mvex"))
	mdat, moof := mp4Box("mdat"), mp4Box("moof",
		mp4Box("traf", mp4Box("tfhd", u32(0, 1)), mp4Box("tfdt", u32(0, 7))))
	for name, tc := range map[string]struct {
		parts [][]byte
		init  bool
		ok    bool
	}{
		"init":            {[][]byte{ftyp, moov}, true, true},
		"init, no moov":   {[][]byte{ftyp}, true, false},
		"init, no trex":   {[][]byte{ftyp, mp4Box("moov", mp4Box("trak"))}, true, false},
		"init, media":     {[][]byte{ftyp, moov, mdat}, true, false},
		"init, cut":       {[][]byte{ftyp, moov[:len(moov)-1]}, true, false},
		"part":            {[][]byte{moof, mdat}, false, true},
		"part, long size": {[][]byte{moof, u32(1), []byte("mdat"), u32(0, 17), {1}}, false, true},
		"part, no mdat":   {[][]byte{moof}, false, false},
		"part, no moof":   {[][]byte{mdat}, false, false},
		"part, other":     {[][]byte{moof, mdat, moov}, false, false},
		"part, no tfdt": {[][]byte{mp4Box("moof", mp4Box("traf", mp4Box("tfhd", u32(0, 1)))),
			mdat}, false, false},
		"part, same time":  {[][]byte{moof, mdat, moof, mdat}, false, false},
		"part, bytes left": {[][]byte{moof, mdat, {0, 0, 0}}, false, false},
	} {
		err := checkInit(slices.Concat(tc.parts...))
		if !tc.init {
			_, err = timeline{}.check(slices.Concat(tc.parts...))
		}
		if (err == nil) != tc.ok {
			t.Errorf("%s: %v, want success: %v", name, err, tc.ok)
		}
	}
}

// TestStats checks the printed numbers and problems.
func TestStats(t *testing.T) {
	s := Stats{Counts: map[string]int{}}
	for _, d := range []time.Duration{3, 1, 2} {
		s.Latency.add(d * time.Second)
	}
	r := report{}
	r.add("part-long", 7, "1s")
	r.add("gzip", 0, "x")
	s.note(r.problems)
	s.note(r.problems)
	if got := s.String(); !strings.Contains(got, "latency 3: 1s min, 2s mean, 3s max") ||
		!strings.Contains(got, "gzip: 2\n") ||
		strings.Count(got, "part-long (4.4.4.9), line 7: 1s\n") != 1 {
		t.Error(got)
	}
	if ps := Must(s.Problems); len(ps) != 1 || ps[0].Rule != "part-long" ||
		len(Without(ps, "part-long")) != 0 || len(s.Problems) != 2 {
		t.Errorf("%v, want part-long as the one that must not be", s.Problems)
	}
}

// TestRest follows a stream that lists only parts of the unfinished segment. The client takes the
// rest of a segment from the complete segment.
func TestRest(t *testing.T) {
	var out bytes.Buffer
	stats := follow(t, "part-removed-early", Client{FromStart: true, Output: &out})
	if got := slices.Sorted(maps.Keys(stats.Counts)); !slices.Equal(got,
		[]string{"part-removed-early"}) || stats.Missed > 0 {
		t.Errorf("%v, want part-removed-early and nothing missed", stats)
	}
	// Of each of ten segments: three parts, and the fourth from the segment.
	if want := media(0); !bytes.Equal(out.Bytes(), want) || stats.Segments != 15 ||
		stats.Parts != 30 {
		t.Errorf("got %d bytes, want %d: %v", out.Len(), len(want), stats)
	}
}

// TestEachRule finds rules that no test breaks.
func TestEachRule(t *testing.T) {
	tested := slices.Clone(clientRules)
	for _, tc := range mediaCases {
		tested = append(tested, tc.rule)
	}
	for _, tc := range multivariantCases {
		tested = append(tested, tc.rule)
	}
	for rule := range Rules {
		if !slices.Contains(tested, rule) {
			t.Errorf("%s is not tested", rule)
		}
	}
}

// TestClientEnds checks how Run ends before the stream does.
func TestClientEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("")
		c := Client{URL: testURL, HTTP: &http.Client{Transport: handlerTransport{s}}, Hints: true}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if stats, err := c.Run(ctx); err != nil || stats.Playlists != 1 || len(stats.Problems) > 0 {
			t.Errorf("a stream that stands still: %v, %v", err, stats)
		}
		c.URL = "http://example.test/live/s/none.m3u8"
		if _, err := c.Run(t.Context()); err == nil {
			t.Error("no error without a playlist")
		}
		c.URL, c.Output = testURL, failingWriter{}
		if _, err := c.Run(t.Context()); !errors.Is(err, errWriter) {
			t.Errorf("%v, want the writer's error", err)
		}
	})
}

var errWriter = errors.New("full")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errWriter }
