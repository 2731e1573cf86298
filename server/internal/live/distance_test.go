package live_test

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// A viewer that joins late in a long GOP stays behind live by that time, in every format. A viewer
// that starts at the next keyframe is not behind.
func TestDistanceFromLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := &nettest.LogBook{}
		h := newHubTest(t, func(c *live.Config) {
			c.Log = slog.New(slog.NewTextHandler(book, nil))
		})
		p := h.publish(avcHeader())
		at := uint32(0)
		group := func(pictures int) {
			for i := range pictures {
				h.send(p, picture(i == 0, at, 1000))
				time.Sleep(40 * time.Millisecond)
				at += 40
			}
		}
		group(250)
		group(243) // 9.72 s
		const age = 243 * 40 * time.Millisecond
		clients := make(map[*live.Viewer]net.Conn)
		enter := func(want live.WatchRequest) *live.Viewer {
			t.Helper()
			want.Name = "cam"
			v, err := live.NewAdmission(h.Hub).Admit(t.Context(), want)
			if err != nil {
				t.Fatal(err)
			}
			conn, client := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, client) }()
			clients[v] = client
			v.Connect(fanout.NewConn(conn, false, 0))
			live.NewAdmission(h.Hub).Start(v, func() { _, _ = io.Copy(io.Discard, conn) })
			synctest.Wait() // the viewer has got everything
			return v
		}
		leave := func(v *live.Viewer) {
			_ = clients[v].Close()
			synctest.Wait()
		}
		for _, tt := range []struct {
			want live.WatchRequest
			age  time.Duration
		}{
			{live.WatchRequest{AsIs: true}, age},
			{live.WatchRequest{Format: rendition.MP4}, age},
			{live.WatchRequest{Format: rendition.RTMP}, age},
			{live.WatchRequest{AsIs: true, Next: true}, 0},
			{live.WatchRequest{Format: rendition.MP4, Next: true}, 0},
		} {
			v := enter(tt.want)
			if i, most := h.Streams()[0], h.Stats().BehindLive; i.BehindLive != tt.age.Seconds() ||
				most != tt.age {
				t.Errorf("%+v: %v s behind live, and at most %v, want %v", tt.want, i.BehindLive,
					most, tt.age)
			}
			leave(v)
		}
		v := enter(live.WatchRequest{AsIs: true})
		other := enter(live.WatchRequest{AsIs: true})
		group(1)
		time.Sleep(time.Minute)
		if got := h.Streams()[0].BehindLive; got != age.Seconds() {
			t.Errorf("later: %v s behind live", got)
		}
		v.Transport().SetPaused(true)
		synctest.Wait()
		group(25)
		v.Transport().SetPaused(false) // it continues at the newest keyframe
		synctest.Wait()
		if got := v.Transport().BehindLive(); got != time.Second {
			t.Errorf("after a pause: %v behind live", got)
		}
		leave(v)
		leave(other)
		if got := h.Streams()[0].BehindLive; got != 0 {
			t.Errorf("without viewers: %v s behind live", got)
		}
		if n := strings.Count(book.String(), "keyframes are far apart"); n != 1 ||
			!strings.Contains(book.String(), "publisher=test") {
			t.Errorf("%d warnings of keyframes:\n%s", n, book)
		}
		h.done(p, nil)
		h.Close()
		time.Sleep(time.Second) // the writing goroutines end
	})
}

// The length of a GOP is known before it ends.
func TestKeyInterval(t *testing.T) {
	h := newHubTest(t, nil)
	p := h.publish(picture(true, 0, 10))
	for _, tt := range []struct {
		key  bool
		at   uint32
		want float64
	}{{false, 1000, 1}, {true, 2000, 2}, {false, 3000, 2}, {false, 7000, 5}, {true, 8000, 6},
		{true, 9000, 6}, {true, 10_000, 1}} {
		h.send(p, picture(tt.key, tt.at, 10))
		if got := h.Streams()[0].KeyInterval; got != tt.want {
			t.Errorf("at %d: %v s, want %v", tt.at, got, tt.want)
		}
	}
	h.done(p, nil)
	h.Close()
}
