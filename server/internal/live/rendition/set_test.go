package rendition

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/live/convert"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// newSet returns the renditions of a stream without frames.
func newSet(t *testing.T, f Format) (s *Set, log *nettest.LogBook) {
	log = &nettest.LogBook{}
	cfg := &Config{KeepBytes: 1 << 20, KeepFrames: 1 << 10, MaxTag: 1 << 20, Counters: &Counters{}}
	var head []byte
	if f == FLV {
		head = []byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00")
	}
	s = New(cfg, slog.New(slog.NewTextHandler(log, nil)), millrace.DefaultPool().Account(), f, head)
	s.SetPublisher("test")
	t.Cleanup(s.Close)
	return s, log
}

func (s *Set) publish(t *testing.T, data string, start bool) {
	t.Helper()
	var c millrace.Chain
	c.AppendCopy([]byte(data))
	if err := s.Publish(&c, start); err != nil {
		t.Fatal(err)
	}
}

// A format is made while it has viewers or readers, and once for all of them.
func TestFormatIsMadeWhileItIsUsed(t *testing.T) {
	s, _ := newSet(t, FLV)
	made := func(want int) {
		t.Helper()
		if n := len(s.All()); n != want {
			t.Fatalf("%d renditions, want %d", n, want)
		}
	}
	made(1)
	first, start1 := s.Join(MP4, false)
	second, start2 := s.Join(MP4, false)
	reader := s.Fragments()
	if first != second || s.Viewers(MP4) != 2 || s.Viewers(RTMP) != 0 || s.Viewers(FLV) != 0 {
		t.Errorf("%d viewers of MP4, want 2 of one rendition", s.Viewers(MP4))
	}
	made(2)
	_, start3 := s.Join(RTMP, false)
	live, start4 := s.Join(FLV, false)
	made(3)
	for _, start := range []fanout.Start{start1, start2, start3, start4} {
		start.Cursor.Close()
	}
	s.Leave(first)
	s.Leave(second)
	made(3) // the reader remains
	reader.Release()
	made(2)
	s.Leave(live)
	made(2)
	again, start := s.Join(MP4, false)
	if again == first {
		t.Error("the next viewer gets a rendition that has ended")
	}
	start.Cursor.Close()
	s.Leave(again)
}

// A viewer that wants the next keyframe of a running conversion starts after the kept frames have
// been converted.
func TestNextKeyframeOfAFormatThatIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSet(t, FLV)
		s.publish(t, "\x09", true) // the kind does not matter, only that there was a frame
		r, start := s.Join(RTMP, true)
		if start.Cursor != nil {
			t.Error("a start is known before the format was made")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if start, err := r.AwaitReady(ctx); err == nil { // the conversion was faster
			start.Cursor.Close()
		}
		start, err := r.AwaitReady(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start.Cursor.Close()
		s.Leave(r)
	})
}

// Only the first fragment after a loss is marked.
func TestFragmentsAfterALoss(t *testing.T) {
	s, _ := newSet(t, FLV)
	r := s.Fragments()
	defer r.Release()
	movie := &mp4.Movie{Video: true}
	publish := func(sequence uint32, key bool) {
		t.Helper()
		var c millrace.Chain
		c.AppendCopy(make([]byte, 100<<10))
		info := &convert.Fragment{Movie: movie,
			FragmentInfo: mp4.FragmentInfo{Sequence: sequence, Pictures: 1, Key: key}}
		if err := r.from.ring.Publish(&c, broadcast.Frame{Key: key, Info: info}); err != nil {
			t.Fatal(err)
		}
	}
	next := func(sequence uint32, afterLoss bool) {
		t.Helper()
		var c millrace.Chain
		f, err := r.Next(t.Context(), &c)
		c.Release()
		if err != nil || f.Sequence != sequence || f.AfterLoss != afterLoss {
			t.Errorf("fragment %d, after a loss: %v, %v, want %d, %v", f.Sequence, f.AfterLoss, err,
				sequence, afterLoss)
		}
	}
	publish(1, true)
	publish(2, false)
	next(1, false)
	next(2, false)
	for i := range uint32(20) { // more than the ring keeps
		publish(3+i, false)
	}
	publish(23, true)
	publish(24, false)
	next(23, true)
	next(24, false)
}

// Only a limited number of renditions wait for a reader that does not read. The last conversion stops
// when the reader leaves, and a reader that continues knows that fragments are missing.
func TestCodecsChangeTooOften(t *testing.T) {
	for _, reads := range []bool{false, true} {
		s, _ := newSet(t, FLV)
		s.mu.Lock()
		r, stopped := newRendition(s.base, MP4, nil), false
		r.stop = func() { stopped = true }
		s.made[MP4] = r
		s.mu.Unlock()
		c := &conversion{set: s, to: r}
		reader := s.Fragments()
		for i := range maxNext + 1 {
			var init millrace.Chain
			init.AppendCopy([]byte("init"))
			if more := c.nextRendition(&init) != nil; more != (i < maxNext) {
				t.Errorf("another rendition after %d: %v", i+1, more)
			}
		}
		if n := len(s.All()); n != 2+maxNext {
			t.Errorf("%d renditions, want %d", n, 2+maxNext)
		}
		c.to.fanout.Close(fanout.CodecsChanged)
		if reads {
			s.retire(c.to)
			var c millrace.Chain
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := reader.Next(ctx, &c); err == nil || !reader.lost {
				t.Errorf("after the last rendition: %v, lost: %v", err, reader.lost)
			}
		}
		reader.Release()
		if n := len(s.All()); n != 1 || !stopped && !reads {
			t.Errorf("%d renditions remain, stopped: %v", n, stopped)
		}
	}
}

// If a conversion panics, its viewers notice: their stream does not end as if it were complete.
func TestViewersOfAFailedConversion(t *testing.T) {
	s, log := newSet(t, FLV)
	s.mu.Lock()
	r := newRendition(s.base, MP4, nil)
	r.stop = func() {}
	s.made[MP4] = r
	s.mu.Unlock()
	joined, start := s.Join(MP4, false)
	if joined != r {
		t.Fatal("the viewer got another rendition")
	}
	start.Cursor.Close()
	s.run(t.Context(), &conversion{set: s, to: r}) // a mistake, which panics
	if why := r.Fanout().Reason(); why != fanout.ConversionFailed || why.Complete() {
		t.Errorf("viewers end with %q", why)
	}
	if text := log.String(); !strings.Contains(text, "level=ERROR") ||
		!strings.Contains(text, "making a rendition failed") {
		t.Errorf("the log has\n%s", text)
	}
	s.Leave(r)
	if again, start := s.Join(MP4, false); again == r {
		t.Error("the next viewer gets the failed rendition")
	} else {
		start.Cursor.Close()
		s.Leave(again)
	}
}

// Viewers of an unknown format, and MP4 players, have no position at which they could continue.
func TestWhoIsDisconnectedForLag(t *testing.T) {
	for _, drop := range []bool{false, true} {
		raw, _ := newSet(t, Raw)
		raw.cfg.Drop = drop
		if !raw.live.dropsViewers() {
			t.Error("viewers of bytes would be moved")
		}
		s, _ := newSet(t, FLV)
		s.cfg.Drop = drop
		for f, want := range map[Format]bool{FLV: drop, RTMP: drop, MP4: true} {
			if r := (&Rendition{base: s.base, format: f}); r.dropsViewers() != want {
				t.Errorf("%s with Drop %v: drops is %v", f, drop, r.dropsViewers())
			}
		}
	}
}

func TestRate(t *testing.T) {
	s, _ := newSet(t, Raw)
	at := int64(time.Hour)
	second := func(bytes int) {
		for range 10 {
			at += int64(time.Second / 10)
			s.Count(bytes/10, at)
		}
	}
	s.Count(0, at)
	second(100_000)
	if got := s.Rate(); got != 800_000 {
		t.Errorf("%d bit/s, want 800000", got)
	}
	second(200_000)
	if got := s.Rate(); got != 1_200_000 { // between the old rate and the new one
		t.Errorf("%d bit/s, want 1200000", got)
	}
	s.Pause()
	if got := s.Rate(); got != 0 {
		t.Errorf("%d bit/s without a publisher", got)
	}
}

// Frames that viewers have skipped are counted for the stream and for the server.
func TestLostFramesAreCounted(t *testing.T) {
	s, _ := newSet(t, FLV)
	s.NoteLost(broadcast.Missed{Frames: 3, Why: broadcast.LagBytes})
	s.NoteLost(broadcast.Missed{Frames: 4, Why: broadcast.Refused})
	if s.Lost() != 7 || s.cfg.Counters.Lost[broadcast.LagBytes].Load() != 3 ||
		s.cfg.Counters.Lost[broadcast.Refused].Load() != 4 {
		t.Errorf("%d frames lost, want 7", s.Lost())
	}
}

// A frame that the ring refuses is not counted as published.
func TestPublishAfterClose(t *testing.T) {
	s, _ := newSet(t, FLV)
	s.Close()
	var frame, header, preamble millrace.Chain
	frame.AppendCopy([]byte("frame"))
	header.AppendCopy([]byte("header"))
	header.CloneTo(&preamble)
	if err := s.Publish(&frame, true); err == nil {
		t.Error("published after Close")
	}
	if err := s.Configure(&header, &preamble); err == nil {
		t.Error("configured after Close")
	}
	if n := s.Stats().PublishedFrames; n != 0 {
		t.Errorf("%d frames published", n)
	}
}
