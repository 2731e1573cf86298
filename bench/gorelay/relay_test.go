package gorelay

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/httpflv"
	"github.com/millrace-io/millrace/bench/measure/benchtest"
	"github.com/millrace-io/millrace/internal/load"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

// TestRelay puts a small load on every relay. Every viewer must get every tag.
func TestRelay(t *testing.T) {
	relay := func(t *testing.T, share bool) load.Config {
		srv := httptest.NewServer(&Relay{Share: share})
		t.Cleanup(srv.Close)
		return load.Config{URL: srv.URL}
	}
	bare := func(t *testing.T, beat time.Duration) load.Config {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go NewBare(beat).Serve(l)
		c := load.Config{URL: "http://" + l.Addr().String()}
		c.Protocol = BareClient{load.HTTPFLV(c), l.Addr().String()}
		return c
	}
	for name, start := range map[string]func(t *testing.T) load.Config{
		"copies":        func(t *testing.T) load.Config { return relay(t, false) },
		"shared":        func(t *testing.T) load.Config { return relay(t, true) },
		"bare":          func(t *testing.T) load.Config { return bare(t, 0) },
		"bare, at 20ms": func(t *testing.T) load.Config { return bare(t, 20*time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			c.Streams, c.Viewers, c.BitRate = 2, 3, 400_000
			c.KeyInterval, c.Ramp = 100*time.Millisecond, 10*time.Millisecond
			c.Settle, c.Duration = 200*time.Millisecond, 300*time.Millisecond
			r, err := load.Run(t.Context(), c, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Viewers.Lost > 0 || len(r.Viewers.Ended) > 0 || r.Viewers.Bytes == 0 {
				t.Errorf("%d bytes, %d tags lost, ended: %v", r.Viewers.Bytes, r.Viewers.Lost,
					r.Viewers.Ended)
			}
		})
	}
}

// TestBadStream publishes bodies that are not streams of tags within the limit.
func TestBadStream(t *testing.T) {
	for name, body := range map[string]string{
		"too long":       httpflv.Header + "\x09\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00",
		"cut in a head":  httpflv.Header + "\x09\x00",
		"cut in a tag":   httpflv.Header + "\x09\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x17",
		"cut in its own": httpflv.Header[:5],
	} {
		w := httptest.NewRecorder()
		(&Relay{}).ServeHTTP(w, httptest.NewRequest("POST", "/live/x", strings.NewReader(body)))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d, want 400", name, w.Code)
		}
	}
}
