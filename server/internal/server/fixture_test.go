package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// testTimeout is how long a test waits for an event that must happen. Only a failing test waits so
// long.
const testTimeout = nettest.Timeout

type logBook = nettest.LogBook

var (
	eventually = nettest.Eventually
	dial       = nettest.Dial
	same       = nettest.Same
)

// A fixture is a server on a loopback port, and its log.
type fixture struct {
	*Server
	livetest.Client
	stop func() // does the same as SIGTERM, and returns when Serve has returned
}

// serve starts a server. change may be nil.
func serve(t testing.TB, change func(*Config)) *fixture {
	t.Helper()
	book := &logBook{}
	cfg := Defaults()
	cfg.Version = "test"
	cfg.Latency = 5 * time.Millisecond
	cfg.ViewerWait = testTimeout
	cfg.PublisherReturn = 0
	cfg.Log = testLog(book)
	if change != nil {
		change(&cfg)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, cfg, book, Listeners{Main: ln})
}

// testLog returns a logger that writes everything to book.
func testLog(book *logBook) *slog.Logger {
	return slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func serveOn(t testing.TB, cfg Config, book *logBook, l Listeners) *fixture {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// The server ends after the viewers and publishers that later cleanups stop. t.Context would
	// end before all cleanups.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v, want nil", err)
		}
	})
	t.Cleanup(func() {
		stop()
		http.DefaultClient.CloseIdleConnections()
		if t.Failed() {
			t.Logf("the server's log:\n%s", book)
		}
	})
	client := livetest.Client{T: t, Addr: l.Main.Addr().String(), Log: book}
	return &fixture{Server: s, Client: client, stop: stop}
}

// published waits until the stream exists, and all viewers have received n bytes after their FLV
// headers.
func (f *fixture) published(name string, n int) {
	f.T.Helper()
	eventually(f.T, fmt.Sprintf("%d bytes of %s", n, name), func() bool {
		there := slices.ContainsFunc(f.hub.Streams(),
			func(s live.StreamInfo) bool { return s.Name == name })
		return there && f.hub.Stats().BytesIn >= int64(n)
	})
}

// metric returns the value of a metric as text, or "" if the metric does not exist (yet).
func (f *fixture) metric(name string) string {
	f.T.Helper()
	for line := range strings.Lines(f.Get("/metrics").Body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
