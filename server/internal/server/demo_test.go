package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live"
)

func TestTheDemoPlays(t *testing.T) {
	f := serve(t, func(c *Config) { c.Demo, c.Takeover = true, live.TakeoverNever })
	w := f.Watcher("/live/demo.flv", 0)
	got := w.Next(30_000)
	if !bytes.HasPrefix(got, []byte("FLV\x01")) || !bytes.Contains(got, []byte("onMetaData")) {
		t.Errorf("begins with % x", got[:16])
	}
	if res := f.Publisher("demo").Wait(); res.Status != http.StatusConflict {
		t.Errorf("publishing demo: %d %s", res.Status, res.Body)
	}
	f.stop()
	f.Logged("publisher ended", "stream=demo")
}

// The demo is played in real time, round after round: exactly the tags that are due have been
// published. Timestamps never go back, even where the sample restarts.
func TestTheDemoIsPlayedInRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Defaults()
		cfg.Log = slog.New(slog.DiscardHandler)
		h := live.NewHub(cfg.Config)
		p, err := h.Open(demo.Name, demo.Name, live.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := newDemo(p)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		played := make(chan error, 1)
		begin := time.Now()
		go func() { played <- d.play(ctx) }()
		for range 100 {
			time.Sleep(333 * time.Millisecond)
			synctest.Wait()
			due := int64(0)
			last := map[byte]time.Duration{}
			for round := range 20 {
				for i := range d.tags {
					tag := &d.tags[i]
					if tag.isConfig() && round > 0 {
						continue
					}
					at := d.due(tag, round)
					if at <= time.Since(begin) {
						due++
					}
					if before, ok := last[byte(tag.Type)]; ok && at < before {
						t.Fatalf("round %d, tag %d: %v after %v", round, i, at, before)
					}
					last[byte(tag.Type)] = at
				}
			}
			if n := h.Stats().FramesIn; n != due {
				t.Errorf("after %v: %d tags, %d are due", time.Since(begin), n, due)
			}
		}
		cancel()
		if err := <-played; !errors.Is(err, context.Canceled) {
			t.Errorf("play = %v, want context.Canceled", err)
		}
		d.release()
		p.Close(nil)
		p.Answered()
		h.Drain(t.Context())
	})
}

// A node without Redis logs that it does not play the demo.
func TestTheDemoWithoutRedis(t *testing.T) {
	f := serveNode(t, "redis://"+nettest.FreeAddr(t), "p:", func(c *Config) { c.Demo = true })
	f.Logged("level=WARN", "the demo is not played", "reason=")
}
