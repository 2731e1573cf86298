package hls

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestParseContenders(t *testing.T) {
	all, err := parseContenders("plain, nginx,millrace", "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range all {
		names = append(names, c.spec+" "+c.in)
	}
	if want := []string{"plain HTTP-FLV", "nginx RTMP", "millrace HTTP-FLV"}; !slices.Equal(names,
		want) {
		t.Errorf("%q, want %q", names, want)
	}
	for _, list := range []string{"", "plain,", "xiu", "plain@2"} {
		if _, err := parseContenders(list, ""); err == nil {
			t.Errorf("%q is accepted", list)
		}
	}
	for _, list := range []string{"", "0", "-1", "200,", "many"} {
		if _, err := parseNumbers(list); err == nil {
			t.Errorf("%q viewers are accepted", list)
		}
	}
}

// TestCompleting uses alternating video and audio frames. A part is complete with the video frame
// after its last one.
func TestCompleting(t *testing.T) {
	start := time.Unix(1, 0)
	sent := &sentTags{pictures: []uint64{1, 3, 5}}
	for i := range 6 {
		sent.at = append(sent.at, start.Add(time.Duration(i)*time.Second))
	}
	for _, test := range []struct {
		in     contents
		newest time.Duration
		at     time.Duration // -1 if no tag completes the part
	}{
		{contents{newest: 1, picture: 1}, 0, 2 * time.Second},
		{contents{newest: 2, picture: 1}, time.Second, 2 * time.Second},
		{contents{newest: 4, picture: 1}, 3 * time.Second, 3 * time.Second},
		{contents{newest: 3, picture: 3}, 2 * time.Second, 4 * time.Second},
		{contents{newest: 5, picture: 5}, 4 * time.Second, -1},
	} {
		at, ok := sent.completing(test.in)
		if ok != (test.at >= 0) || ok && at.Sub(start) != test.at ||
			sent.newest(test.in).Sub(start) != test.newest {
			t.Errorf("%+v: %v, %t, newest %v", test.in, at.Sub(start), ok,
				sent.newest(test.in).Sub(start))
		}
	}
}

func TestQuantile(t *testing.T) {
	list := []time.Duration{time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond}
	if p50, p99 := quantile(list, 0.5), quantile(list, 0.99); p50 != 2 || p99 != 2 {
		t.Errorf("quantiles %v and %v, want 2 and 2", p50, p99)
	}
	if v := quantile(nil, 0.5); v == v {
		t.Errorf("%v of nothing", v)
	}
}

// TestContendersDeliver uses a few viewers per server. The observer compares every video and audio
// frame.
func TestContendersDeliver(t *testing.T) {
	if testing.Short() {
		t.Skip("runs servers and streams in real time")
	}
	all, err := parseContenders("plain,nginx,millrace", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range all {
		for _, parts := range []bool{true, false} {
			if parts && !who.parts {
				continue
			}
			c := testCase{parts: parts, viewers: 3, bitRate: testRate, settle: 3 * time.Second,
				measure: 4 * time.Second}
			t.Run(who.spec+", "+c.String(), func(t *testing.T) {
				benchtest.Need(t, who.prepare(t.Context()))
				r, err := c.take(t.Context(), who)
				if err != nil {
					t.Fatal(err)
				}
				if r.missing > 0 || len(r.ended) > 0 || r.bytes == 0 || r.fetched == 0 ||
					r.requests <= r.fetched {
					t.Errorf("%+v, want all parts and no client ended", r)
				}
				if parts && (len(r.completing) == 0 || r.completing[0] <= 0 ||
					r.newest[0] < r.completing[0] || r.perPart <= 0) {
					t.Errorf("%+v, want times of parts", r)
				}
			})
		}
	}
}

// TestNoStream uses a server that accepts the stream but has no playlist.
func TestNoStream(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a stream")
	}
	all, err := parseContenders("plain", "")
	if err != nil {
		t.Fatal(err)
	}
	server, err := all[0].start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	a := &audience{addr: server.addr, path: server.path}
	published := make(chan error, 1)
	published <- errEmpty
	if err := a.await(t.Context(), published); !errors.Is(err, errEmpty) {
		t.Errorf("error %v, want that of the publisher", err)
	}
	v := newViewer(a, nil)
	if err := v.watch(t.Context()); err == nil || err.Error() != "status 404" {
		t.Errorf("error %v, want status 404", err)
	}
}

// TestProgram puts a small load on the plain server.
func TestProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	var out strings.Builder
	args := []string{"-rounds", "1", "-seconds", "2", "-parts", "4", "-segments", "2",
		"-contenders", "plain"}
	if err := Program.Main(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n| "); n != 6 ||
		!strings.Contains(out.String(), "parts to 4 viewers") ||
		!strings.Contains(out.String(), "segments to 2 viewers") {
		t.Errorf("%d lines, want two tables:\n%s", n, &out)
	}
}
