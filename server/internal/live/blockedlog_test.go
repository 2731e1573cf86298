package live_test

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// While the log blocks, viewers of this and other streams get frames, whichever message is logged.
func TestTheLogBlocks(t *testing.T) {
	for _, event := range []struct {
		name, line string
		change     func(*live.Config)
		script     *script
		// Receive buffer of another viewer's connection. The viewer reads nothing more.
		rcvbuf int
		happen func(f *fixture, other *livetest.Watcher) // the event that is logged
	}{
		{name: "a viewer leaves", line: "viewer ended",
			happen: func(_ *fixture, w *livetest.Watcher) { _ = w.Conn.Close() }},
		{name: "a viewer's connection is reset", line: "viewer ended",
			happen: func(_ *fixture, w *livetest.Watcher) {
				_ = w.Conn.(*net.TCPConn).SetLinger(0)
				_ = w.Conn.Close()
			}},
		{name: "the operator ends a viewer", line: "viewer ended",
			happen: func(f *fixture, w *livetest.Watcher) {
				list, _ := live.NewOperator(f.Hub).Viewers("cam", 0, 10)
				for _, v := range list {
					if v.Address == w.Conn.LocalAddr().String() {
						live.NewOperator(f.Hub).EndViewer(v.ID)
					}
				}
			}},
		{name: "the time of a viewer is up", line: "viewer ended",
			happen: func(f *fixture, w *livetest.Watcher) {
				f.Transports()[w.Conn.LocalAddr().String()].End(fanout.TimeUp)
			}},
		{name: "a viewer is dropped", line: "viewer ended", change: tight(live.Drop),
			script: newScript(20, 5, 8000),
			rcvbuf: smallBuffer},
		{name: "a viewer is too far behind", line: "viewer is too far behind",
			script: newScript(20, 5, 8000),
			rcvbuf: smallBuffer, change: tightBy(live.Skip,
				func(c *live.Config) { c.LagTime = time.Millisecond })},
		{name: "keyframes are far apart", line: "keyframes are far apart",
			script: newScript(1, 130, 100)},
	} {
		t.Run(event.name, func(t *testing.T) {
			var b *nettest.BlockingLog
			f := serve(t, func(c *live.Config) {
				if event.change != nil {
					event.change(c)
				}
				c.Latency = 0
				b = nettest.NewBlockingLog(c.Log.Handler())
				c.Log = slog.New(b)
			})
			sc := event.script
			if sc == nil {
				sc = newScript(4, 5, 1000)
			}
			watchers := make(map[*livetest.Publisher][]*livetest.Watcher)
			other := f.Ask("/live/cam", event.rcvbuf)
			for i, name := range []string{"cam", "lobby"} {
				list := []*livetest.Watcher{f.Ask("/live/"+name, 0), f.Ask("/live/"+name, 0)}
				f.waiting(name, len(list)+1-i)
				p := f.Publisher(name)
				p.Send(sc.start())
				for _, w := range list {
					w.Begin()
					w.Next(len(sc.start()))
				}
				inStep(t, p, sc.tags[:2], list)
				watchers[p] = list
			}
			other.Begin()
			other.Next(len(sc.start()) + len(sc.tags[0]) + len(sc.tags[1]))

			goOn := b.Block()
			defer goOn() // before the Hub is drained
			if event.happen != nil {
				event.happen(f, other)
				eventually(t, "a line that waits", func() bool { return b.Holds(event.line) })
			}
			for p, list := range watchers {
				inStep(t, p, sc.tags[2:], list)
			}
			eventually(t, "a line that waits", func() bool { return b.Holds(event.line) })
		})
	}
}
