package fanout

import (
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// testTimeout is how long a test waits for an event that must happen. Only a failing test waits so
// long.
const testTimeout = nettest.Timeout

var (
	eventually = nettest.Eventually
	tcpPair    = nettest.TCPPair
)

// A fixture is a ring with its Fanout, and the Session of all its viewers. Viewers start at the
// newest keyframe.
type fixture struct {
	*Fanout
	ring     *broadcast.Ring
	counters Counters
	options  []broadcast.CursorOption
	pause    time.Duration // of viewers that are added from now on

	mu     sync.Mutex // held while a viewer starts, and while a test changes the preamble
	served atomic.Int32
}

func newFixture(cfg Config, options ...broadcast.Option) *fixture {
	f := &fixture{ring: broadcast.New(options...)}
	f.options = []broadcast.CursorOption{broadcast.MaxLagBytes(cfg.Allowance.Bytes),
		broadcast.MaxLagFrames(cfg.Allowance.Frames), broadcast.MaxLagTime(cfg.Allowance.Time)}
	cfg.Log, cfg.Counters = slog.New(slog.DiscardHandler), &f.counters
	f.Fanout = New(f.ring, cfg)
	return f
}

// publish publishes a frame.
func (f *fixture) publish(t testing.TB, data string, key bool) {
	t.Helper()
	var c millrace.Chain
	c.AppendCopy([]byte(data))
	if err := f.ring.Publish(&c, broadcast.Frame{Key: key}); err != nil {
		t.Fatal(err)
	}
}

// viewer returns a viewer that the Fanout serves.
func (f *fixture) viewer(conn Conn) *Viewer {
	f.served.Add(1)
	return f.NewViewer(ViewerConfig{Session: f, Conn: conn, Remote: "test", Start: f.Restart()})
}

// unserved returns a viewer that the test serves itself, in place of l's goroutine.
func (f *fixture) unserved(conn Conn, l *loop) *Viewer {
	v := f.viewer(conn)
	v.loop = l
	return v
}

// age returns the age of the newest keyframe.
func (f *fixture) age() time.Duration {
	c := f.ring.Cursor(broadcast.MaxLagBytes(0), broadcast.MaxLagFrames(0), broadcast.MaxLagTime(0))
	defer c.Close()
	return c.Lag().Time
}

func (f *fixture) Restart() Start {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.ring.Cursor(f.options...)
	return Start{Cursor: c, Lag: c.Lag(), Age: f.age()}
}

func (f *fixture) Missed(broadcast.Missed) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.age()
}

func (f *fixture) Owned() bool                           { return true }
func (f *fixture) Complete() bool                        { return true }
func (f *fixture) Begin(*millrace.Chain, int)            {}
func (f *fixture) Sent(int)                              {}
func (f *fixture) Ended(Reason, int64, broadcast.Missed) { f.served.Add(-1) }

// discard reads everything from r.
func discard(r io.Reader) { _, _ = io.Copy(io.Discard, r) }
