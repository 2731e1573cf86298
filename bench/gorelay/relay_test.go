package gorelay

import (
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

// TestRelay puts a small load on both kinds. Every viewer must get every tag, starting with a
// keyframe.
func TestRelay(t *testing.T) {
	for name, share := range map[string]bool{"copies": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(&Relay{Share: share})
			defer srv.Close()
			r, err := load.Run(t.Context(), load.Config{
				URL: srv.URL, Streams: 2, Viewers: 3, BitRate: 400_000,
				KeyInterval: 100 * time.Millisecond,
				Ramp:        10 * time.Millisecond, Settle: 200 * time.Millisecond,
				Duration: 300 * time.Millisecond,
			}, nil)
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
