package live_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/memory"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// sendPart sends the first n bytes of a message of size bytes on a chunk stream, with chunks of n
// bytes.
func sendPart(c *livetest.RTMP, chunks byte, size, n int) {
	c.ChunkSize(n)
	head := []byte{chunks, 0, 0, 0, byte(size >> 16), byte(size >> 8), byte(size),
		byte(rtmp.TypeVideo), rtmp.Stream, 0, 0, 0}
	_, _ = c.Conn.Write(append(head, make([]byte, n)...))
}

// A client that plays and leaves a message unfinished is disconnected, even if it sent the message
// while it waited for its stream, and even if it sends other messages in the meantime.
func TestPlayersWithUnfinishedMessages(t *testing.T) {
	t.Parallel()
	for name, config := range carriers {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(c *live.Config) {
				c.StallTimeout = 300 * time.Millisecond
			}).withRTMP(config(t))
			waiting := f.playRTMP("none", 0)
			f.waiting("none", 1)
			sendPart(waiting, 10, 1000, 500)
			waiting.AwaitEnd()
			f.waiting("none", 0)

			early := f.playRTMP("cam", 0)
			f.waiting("cam", 1)
			sendPart(early, 10, 1000, 500)
			sc := newScript(2, 3, 1000)
			p := f.publishRTMP("cam", 4096)
			_ = p.SendTags(append(sc.config, sc.tags...)...)
			early.AwaitEnd()

			late, busy, honest := f.playRTMP("cam", 0), f.playRTMP("cam", 0), f.playRTMP("cam", 0)
			f.viewers(3)
			sendPart(late, 10, 1000, 500)
			late.AwaitEnd()
			sendPart(busy, 10, 1000, 500)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				busy.AwaitEnd()
			}()
			for pinging := true; pinging; {
				select {
				case <-ended:
					pinging = false
				case <-time.After(time.Millisecond):
					_ = busy.Ping(1)
				}
			}
			f.Logged("viewer ended", "reason=stalled")
			f.viewers(1)
			_ = honest.Ping(7)
			_ = p.SendTags(sc.tags...)
			honest.NextTag()
			unpublish(t, p)
		})
	}
}

// The data that playing RTMP clients send have an owner, and are limited.
func TestMemoryOfRTMPPlayers(t *testing.T) {
	f := serve(t, nil).withRTMP(nil)
	sc := newScript(2, 3, 1000)
	p := f.publishRTMP("cam", 4096)
	_ = p.SendTags(append(sc.config, sc.tags...)...)
	const players = 8
	for range players {
		sendPart(f.playRTMP("cam", 0), 10, 4000, 3999)
	}
	eventually(t, "their bytes", func() bool { return f.rtmp.ClientBytes() >= players*3999 })
	if n := f.rtmp.ClientBytes(); n > players*8<<10 {
		t.Errorf("%d bytes of the players are counted, want 8 KiB each or less", n)
	}
	for range players {
		c := f.playRTMP("cam", 0)
		sendPart(c, 10, 64<<10, 60<<10)
		c.AwaitEnd()
	}
	f.viewers(players)
	unpublish(t, p)
	f.stop()
	eventually(t, "nothing to be left", func() bool { return f.rtmp.ClientBytes() == 0 })
}

// A publisher with unfinished messages gets the reason, even if it continues to send.
func TestPublishersWithUnfinishedMessages(t *testing.T) {
	t.Parallel()
	change := func(c *live.Config) { c.PublishTimeout = time.Second }
	atEachLatency(t, "RTMP", change, func(t *testing.T, plain *fixture) {
		f := plain.withRTMP(nil)
		sc := newScript(2, 3, 1000)
		p := f.publishRTMP("cam", 4096)
		_ = p.SendTags(append(sc.config, sc.tags...)...)
		sendPart(p, 10, 64<<10, 60<<10)
		for p.SendTags(sc.tags[0]) == nil {
			time.Sleep(time.Millisecond)
		}
		f.Logged("publisher ended", "has not come to its end", "status=408")
	})
	atEachLatency(t, "HTTP", change, func(t *testing.T, f *fixture) {
		sc := newScript(1, 1, 1<<20)
		p := f.Publisher("cam")
		p.Send(sc.start())
		for _, err := p.Body.Write(sc.tags[0][:1<<10]); err == nil; _, err = p.Body.Write([]byte("x")) {
			time.Sleep(time.Millisecond)
		}
		f.Logged("publisher ended", "has not come to its end", "status=408")
		// A client that still writes when the connection is closed may not get the response.
		if res := p.Wait(); res.Status != 0 &&
			(res.Status != http.StatusRequestTimeout ||
				!strings.Contains(res.Body, "has not come to its end")) {
			t.Errorf("%d %s, want 408 or the end of the connection", res.Status, res.Body)
		}
	})
}

// A publisher that has not sent a whole tag, or only small chunks, can be ended as the largest one,
// too.
func TestLargestUnfinishedPublisherEnds(t *testing.T) {
	const size = 3 << 20
	holds := func(f *fixture) func() bool {
		return func() bool {
			s := f.AnyStream("cam")
			return s != nil && s.InUse() > size-64<<10
		}
	}
	budget := func(c *live.Config) {
		c.Memory = memory.New(4<<20, millrace.NewPool(), slog.New(slog.DiscardHandler))
	}
	t.Run("HTTP", func(t *testing.T) {
		f := serve(t, budget)
		sc := newScript(1, 1, size)
		p := f.Publisher("cam")
		p.Send(append(sc.header[:len(sc.header):len(sc.header)], sc.tags[0][:size]...))
		eventually(t, "a tag that does not end", holds(f))
		f.CutLargest(1 << 20)
		if res := p.Wait(); res.Status != http.StatusServiceUnavailable {
			t.Errorf("%d %s, want 503", res.Status, res.Body)
		}
	})
	for _, chunk := range []int{128, 4096} {
		f := serve(t, budget).withRTMP(nil)
		p := f.publishRTMP("cam", chunk)
		body := make([]byte, size)
		whole := livetest.RTMPChunks(rtmp.Message{Type: rtmp.TypeVideo, ChunkStream: 6,
			Stream: rtmp.Stream}, body, chunk)
		_, _ = p.Conn.Write(whole[:len(whole)-1])
		eventually(t, "a message that does not end", holds(f.fixture))
		if n := f.Stats().Memory; n < size-64<<10 {
			t.Errorf("the streams' memory is %d bytes", n)
		}
		f.CutLargest(1 << 20)
		f.Logged("publisher ended", "this stream holds the most")
		p.AwaitEnd()
	}
}
