package live_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// flvStart is the header of a stream with audio and video.
var flvStart = []byte("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00")

// A hubTest publishes to a Hub without connections, and reads what viewers get.
type hubTest struct {
	*live.Hub
	t *testing.T
}

func newHubTest(t *testing.T, change func(*live.Config)) *hubTest {
	cfg := testConfig()
	cfg.Latency, cfg.PublisherReturn = 0, 15*time.Second
	if change != nil {
		change(&cfg)
	}
	return &hubTest{live.NewHub(cfg), t}
}

// open opens the stream cam.
func (h *hubTest) open() *live.Publisher {
	h.t.Helper()
	p, err := h.Open("cam", "test", live.Terms{})
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// publish opens the stream cam and sends tags.
func (h *hubTest) publish(tags ...[]byte) *live.Publisher {
	h.t.Helper()
	p := h.open()
	p.Begin(flv.Header{HasAudio: true, HasVideo: true})
	h.send(p, tags...)
	return p
}

// send sends tags like a protocol that has whole tags.
func (h *hubTest) send(p *live.Publisher, tags ...[]byte) {
	h.t.Helper()
	r := millrace.NewReader(bytes.NewReader(join(append([][]byte{flvStart}, tags...))))
	defer r.Release()
	dec := flv.NewDecoder(r)
	var c millrace.Chain
	for range tags {
		tag, err := dec.Next(&c)
		if err == nil {
			err = p.WriteTag(tag, &c)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
}

// done closes p.
func (h *hubTest) done(p *live.Publisher, err error) {
	p.Close(err)
	p.Answered()
}

// A hubView is a viewer of cam.
type hubView struct {
	h    *hubTest
	v    *live.Viewer
	tags [][]byte
	over bool // the stream has ended
}

func (h *hubTest) view() *hubView {
	h.t.Helper()
	s := h.LookUp("cam")
	if s == nil {
		h.t.Fatal("there is no stream")
	}
	v, err := h.NewViewer(s, live.WatchRequest{})
	if err != nil {
		h.t.Fatal(err)
	}
	return &hubView{h: h, v: v}
}

// read returns the new tags.
func (w *hubView) read() [][]byte {
	w.h.t.Helper()
	var c millrace.Chain
	defer c.Release()
	for more := true; more; {
		b, err := w.v.Start().Cursor.Take(&c)
		if err != nil {
			w.over = true
		}
		more = b.More && err == nil
	}
	fresh := cut(w.h.t, bytes.Clone(c.Bytes()))
	w.tags = append(w.tags, fresh...)
	return fresh
}

// close closes the viewer. The viewer must have got everything that its clock allows.
func (w *hubView) close() {
	w.h.t.Helper()
	checkClock(w.h.t, w.tags)
	w.v.Start().Cursor.Close()
	w.v.Exit()
}

// timeOf returns a tag's time.
func timeOf(tag []byte) uint32 {
	return uint32(tag[7])<<24 | binary.BigEndian.Uint32(tag[3:7])&0xffffff
}

// checkClock checks that no frame is earlier than the frame before it.
func checkClock(t *testing.T, tags [][]byte) {
	t.Helper()
	last := uint32(0)
	for i, tag := range tags {
		if at := timeOf(tag); tag[12] == 1 {
			if at < last {
				t.Errorf("tag %d is at %d ms, after %d ms", i, at, last)
			}
			last = at
		}
	}
}

// untimed returns the tags without their timestamps.
func untimed(tags [][]byte) []byte {
	all := bytes.Clone(join(tags))
	for p := all; len(p) > 0; p = p[15+int(binary.BigEndian.Uint32(p)&0xffffff):] {
		copy(p[4:8], "\x00\x00\x00\x00")
	}
	return all
}

// How long a stream waits for its publisher depends on how the publisher has ended.
func TestPublisherReturnTimes(t *testing.T) {
	const ret = 15 * time.Second
	sc := newScript(1, 2, 100)
	cutOff := io.ErrUnexpectedEOF
	for _, tt := range []struct {
		name string
		ret  time.Duration
		send func(h *hubTest) *live.Publisher
		err  error
		want time.Duration
	}{
		{"cut", ret, func(h *hubTest) *live.Publisher { return h.publish(sc.tags...) }, cutOff,
			ret},
		{"nothing but the header", ret, func(h *hubTest) *live.Publisher { return h.publish() },
			cutOff, ret},
		{"a clean end", ret, func(h *hubTest) *live.Publisher { return h.publish(sc.tags...) }, nil,
			live.CleanEndWait},
		{"a clean end, less is allowed", time.Second,
			func(h *hubTest) *live.Publisher { return h.publish(sc.tags...) }, nil, time.Second},
		{"the end at its owner", ret, func(h *hubTest) *live.Publisher {
			return h.publish(sc.tags...)
		}, live.ErrOwnerEnded, live.CleanEndWait},
		{"no return", 0, func(h *hubTest) *live.Publisher { return h.publish(sc.tags...) }, cutOff,
			0},
		{"no return, a clean end", 0, func(h *hubTest) *live.Publisher {
			return h.publish(sc.tags...)
		}, nil, 0},
		{"a panic", ret, func(h *hubTest) *live.Publisher { return h.publish(sc.tags...) },
			live.ErrPanic, 0},
		{"nothing", ret, (*hubTest).open, cutOff, 0},
		{"bytes", ret, func(h *hubTest) *live.Publisher {
			p := h.open()
			if err := p.ReadBody(strings.NewReader("bytes")); err != nil {
				h.t.Error(err)
			}
			return p
		}, cutOff, 0},
		{"draining", ret, func(h *hubTest) *live.Publisher {
			p := h.publish(sc.tags...)
			h.Close()
			return p
		}, refuse.ErrShutdown, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHubTest(t, func(c *live.Config) { c.PublisherReturn = tt.ret })
				p := tt.send(h)
				st := p.Stream()
				var viewer *broadcast.Cursor
				if st.Forms() != nil {
					_, start := st.Forms().Join(st.Forms().Format(), false)
					viewer = start.Cursor
					defer viewer.Close()
				}
				h.done(p, tt.err)
				if p.Lifetime().Err() == nil {
					t.Error("the publisher's context continues")
				}
				began := time.Now()
				for {
					if h.AnyStream("cam") != st {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				if took := time.Since(began); took < tt.want || took > tt.want+20*time.Millisecond {
					t.Errorf("it waits for %v, want %v", took, tt.want)
				}
				if viewer != nil && !reachesEnd(viewer) {
					t.Error("its viewers do not learn of its end")
				}
			})
		})
	}
}

// reachesEnd reports whether a viewer that takes everything finds the end of the stream.
func reachesEnd(viewer *broadcast.Cursor) bool {
	var c millrace.Chain
	defer c.Release()
	for {
		if b, err := viewer.Take(&c); err != nil || !b.More {
			return err == io.EOF
		}
	}
}

// The stream's clock advances by the pause, its headers are not sent again, and video resumes at a
// keyframe.
func TestReturningPublisherContinuesTheStream(t *testing.T) {
	for _, tt := range []struct {
		name  string
		away  time.Duration
		first uint32 // time of the second publisher's first frame
	}{
		{"at 0", 3 * time.Second, 0},
		{"far ahead", 3 * time.Second, 3_600_000},
		{"at once", 0, 0},
		{"wrapping", 1500 * time.Millisecond, 1<<32 - 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHubTest(t, nil)
				sc := newScript(2, 3, 100)
				p := h.publish(append(sc.config, sc.tags...)...)
				w := h.view()
				w.read()
				last := timeOf(sc.tags[len(sc.tags)-1])
				time.Sleep(tt.away / 2)
				h.done(p, io.ErrUnexpectedEOF)
				time.Sleep(tt.away - tt.away/2)

				// The second publisher begins in the middle of a GOP.
				group := sc.tags[2:]
				next := make([][]byte, len(group))
				for i, tag := range group {
					next[i] = flvTag(flv.Type(tag[0]), timeOf(tag)-timeOf(group[0])+tt.first,
						tag[11:len(tag)-4])
				}
				p = h.publish(append(sc.config, next...)...)
				got := w.read()
				var want [][]byte
				for i, tag := range group {
					if tag[0] == byte(flv.TypeAudio) || i+2 >= sc.keys[1] {
						due := last + uint32(
							tt.away/time.Millisecond) + timeOf(tag) - timeOf(group[0])
						want = append(want, flvTag(flv.Type(tag[0]), due, tag[11:len(tag)-4]))
					}
				}
				same(t, "what continues", join(got), join(want))
				late := h.view()
				if tags := late.read(); len(tags) < 4 ||
					!bytes.Equal(untimed(tags[:4]),
						untimed(append(sc.config, sc.tags[sc.keys[1]]))) {
					t.Errorf("a late viewer gets %d tags, which do not begin with the headers and a keyframe", len(tags))
				}
				late.close()
				w.close()
				if i := h.Streams()[0]; i.Returns != 1 || i.Takeovers != 0 || i.Waiting != 0 {
					t.Errorf("%+v, want one return, no takeover and nothing waiting", i)
				}
				h.done(p, nil)
				h.Close()
			})
		})
	}
}

// Frames that a publisher sends out of order never come before the frames of the previous
// publisher.
func TestClockNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, nil)
		key := func(at uint32) []byte { return picture(true, at, 10) }
		sound := func(at uint32) []byte {
			return flvTag(flv.TypeAudio, at, []byte("\xaf\x01sound"))
		}
		p := h.publish(key(1000), sound(990))
		w := h.view()
		time.Sleep(50 * time.Millisecond)
		h.done(p, io.EOF)
		p = h.publish(flvTag(flv.TypeScript, 0, []byte("\x02\x00\x0aonCuePoint")), sound(500),
			key(440), key(520), key(400))
		var got []uint32
		for _, tag := range w.read() {
			got = append(got, timeOf(tag))
		}
		if want := []uint32{1000, 990, 1050, 1050, 1000, 1070,
			1000}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
		w.v.Start().Cursor.Close()
		h.done(p, nil)
		h.Close()
	})
}

// The clock of frames and of other tags runs as long as a publisher stays, beyond half of its 32
// bits, and beyond all of them.
func TestClockRunsForMonths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, nil)
		h.done(h.publish(picture(true, 5000, 10)), io.EOF)
		w := h.view()
		p := h.publish(picture(true, 0, 10))
		w.read()
		const step = 1 << 28 // ms: three days
		for i := range uint32(20) {
			h.send(p, picture(true, i*step, 10),
				flvTag(flv.TypeScript, i*step+1, []byte("\x02\x00\x0aonCuePoint")))
			tags := w.read()
			for k, want := range []uint32{5000 + i*step, 5001 + i*step} {
				if got := timeOf(tags[len(tags)-2+k]); got != want {
					t.Fatalf("after %d days tag %d has the time %d ms, want %d", i*step/86_400_000,
						k, got, want)
				}
			}
		}
		w.v.Start().Cursor.Close()
		h.done(p, nil)
		h.Close()
	})
}

// A publisher's first frame has a time hours ahead of its later clock. The stream's clock does not
// wait until the publisher reaches that time again.
func TestClockThatLeapsBackContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, nil)
		h.done(h.publish(picture(true, 1000, 10)), io.EOF)
		w := h.view()
		p := h.publish(picture(true, 3_600_000, 10))
		var got []uint32
		// This tag says nothing about the clock.
		h.send(p, flvTag(flv.TypeScript, 0, []byte("\x02\x00\x0aonCuePoint")))
		h.send(p, picture(false, 3_600_000, 10))
		for i := range uint32(3) {
			time.Sleep(40 * time.Millisecond)
			h.send(p, picture(i == 0, 40*i, 10),
				flvTag(flv.TypeScript, 0, []byte("\x02\x00\x0aonCuePoint")))
		}
		for _, tag := range w.read()[1:] {
			if tag[0] == byte(flv.TypeVideo) {
				got = append(got, timeOf(tag))
			}
		}
		if want := []uint32{1000, 1000, 1040, 1080, 1120}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
		w.v.Start().Cursor.Close()
		h.done(p, nil)
		h.Close()
	})
}

// Changed headers and metadata are sent again, and late viewers get the new ones.
func TestChangedHeadersAreSentAgain(t *testing.T) {
	for changed := range 4 { // 3 means none
		synctest.Test(t, func(t *testing.T) {
			h := newHubTest(t, nil)
			sc := newScript(1, 2, 100)
			p := h.publish(append(sc.config, sc.tags...)...)
			w := h.view()
			w.read()
			h.done(p, io.ErrUnexpectedEOF)
			config := append([][]byte{}, sc.config...)
			if changed < 3 {
				tag := bytes.Clone(config[changed])
				tag[len(tag)-5] ^= 1
				config[changed] = tag
			}
			p = h.publish(append(config, sc.tags...)...)
			got := w.read()
			want := sc.tags
			if changed < 3 {
				want = append([][]byte{config[changed]}, want...)
			}
			same(t, fmt.Sprintf("with part %d changed", changed), untimed(got), untimed(want))
			late := h.view()
			same(t, "a late viewer", untimed(late.read()), untimed(append(config, sc.tags...)))
			late.close()
			w.close()
			h.done(p, nil)
			h.Close()
		})
	}
}

// Tracks other than the first video and audio track are counted by their sequence headers, however
// often those are sent, and separately for each publisher.
func TestFurtherTracksAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, nil)
		header := func(kind flv.Type, data string) []byte { return flvTag(kind, 0, []byte(data)) }
		p := h.publish()
		for i, tt := range []struct {
			tag  []byte
			want int
		}{
			{header(flv.TypeVideo, "\x96\x10avc1\x00\x00\x00\x01a\x01\x00\x00\x01b"), 1},
			{header(flv.TypeVideo, "\x96\x10avc1\x00\x00\x00\x01a\x01\x00\x00\x01c"), 1},
			{header(flv.TypeVideo, "\x96\x20hvc1\x02\x00\x00\x01aavc1\x00\x00\x00\x01b"), 2},
			{header(flv.TypeAudio, "\x90Opushead"), 2},
			{header(flv.TypeAudio, "\x95\x00mp4a\x01head"), 3},
			{flvTag(flv.TypeVideo, 0, []byte("\x96\x11avc1\x08\x00\x00\x01a")), 3}, // a video frame
		} {
			h.send(p, tt.tag)
			if got, all := h.Streams()[0].Further, h.Stats().FurtherTracks; got != tt.want ||
				all != tt.want {
				t.Errorf("after tag %d: %d further tracks, %d of all streams, want %d", i, got, all,
					tt.want)
			}
		}
		h.done(p, io.EOF)
		p = h.publish(header(flv.TypeVideo, "\x90avc1head"))
		if got := h.Streams()[0].Further; got != 0 {
			t.Errorf("%d further tracks of another publisher", got)
		}
		h.done(p, nil)
		h.Close()
	})
}

// Other data cannot continue an FLV stream, and does not shorten the wait for its publisher.
func TestWaitingStreamAcceptsOnlyFLV(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, nil)
		sc := newScript(1, 2, 100)
		h.done(h.publish(sc.tags...), io.ErrUnexpectedEOF)
		w := h.view()
		for i := range 14 {
			time.Sleep(time.Second)
			p := h.open()
			err := p.ReadBody(strings.NewReader([]string{"bytes", ""}[i%2]))
			h.done(p, err)
			if status := []int{http.StatusUnsupportedMediaType,
				http.StatusBadRequest}[i%2]; live.PublishStatus(err) != status {
				t.Errorf("%v, status %d, want %d", err, live.PublishStatus(err), status)
			}
			if st := h.Stats(); st.Streams != 1 || st.Waiting != 1 || st.Returns != 0 {
				t.Fatalf("after %d s: %d streams, %d wait, %d returns", i, st.Streams, st.Waiting,
					st.Returns)
			}
		}
		if wait := h.Stats().PublisherWait; wait != 14*time.Second {
			t.Errorf("waited for %v, want 14 s", wait)
		}
		if w.read(); w.over {
			t.Error("the stream has ended early")
		}
		time.Sleep(2 * time.Second)
		if w.read(); !w.over || len(h.Streams()) > 0 {
			t.Error("the stream has not ended")
		}
		if wait := h.Stats().PublisherWait; wait != 15*time.Second {
			t.Errorf("waited for %v, want 15 s", wait)
		}
		w.close()
	})
}

// The takeover policies, by policy and state of the first publisher.
func TestTakeoverPolicies(t *testing.T) {
	for _, tt := range []struct {
		policy live.Takeover
		silent time.Duration
		says   string // "" means that the second publisher takes over
	}{
		{"", 0, ""},
		{live.TakeoverAlways, 0, ""},
		{live.TakeoverStalled, live.StalledAfter - time.Millisecond, "--takeover stalled"},
		{live.TakeoverStalled, live.StalledAfter, ""},
		{live.TakeoverNever, time.Hour, "--takeover never"},
	} {
		for _, format := range []string{"flv", "raw", "none yet"} {
			t.Run(fmt.Sprintf("%s after %v, %s", tt.policy, tt.silent, format), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					takeover(t, tt.policy, tt.silent, tt.says, format)
				})
			})
		}
	}
}

func takeover(t *testing.T, policy live.Takeover, silent time.Duration, says, format string) {
	h := newHubTest(t, func(c *live.Config) { c.Takeover = policy })
	sc := newScript(1, 2, 100)
	body, sender := io.Pipe()
	ended := make(chan error, 1)
	first := h.open()
	before := first.Stream()
	go func() {
		defer context.AfterFunc(first.Lifetime(),
			func() { _ = body.CloseWithError(errors.New("cut")) })()
		_ = first.ReadBody(body)
		time.Sleep(time.Second) // the second publisher waits for that
		err := context.Cause(first.Lifetime())
		h.done(first, err)
		ended <- err
	}()
	switch format {
	case "flv":
		_, _ = sender.Write(sc.whole())
	case "raw":
		_, _ = sender.Write([]byte("bytes"))
	}
	synctest.Wait()
	time.Sleep(silent)
	second, err := h.Open("cam", "second", live.Terms{})
	if says != "" {
		if err == nil || !strings.Contains(err.Error(), says) ||
			live.PublishStatus(err) != http.StatusConflict {
			t.Errorf("%v, want an error with %q", err, says)
		}
		_ = sender.Close()
		<-ended
		h.Close()
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // the first publisher's reason is set after the second one continues
	select {
	case err := <-ended:
		if err != live.ErrTakenOver || live.PublishStatus(err) != http.StatusConflict {
			t.Errorf("the first one ends with %v", err)
		}
	default:
		t.Error("the second publisher has not waited for the first one")
	}
	if goesOn := second.Stream() == before; goesOn != (format == "flv") {
		t.Errorf("goes on with the stream: %v", goesOn)
	}
	second.Begin(flv.Header{HasVideo: true, HasAudio: true})
	h.send(second, sc.tags...)
	if st := h.Stats(); st.Takeovers != 1 || st.Returns != 0 || st.Streams != 1 {
		t.Errorf("%d takeovers, %d returns, %d streams", st.Takeovers, st.Returns, st.Streams)
	}
	if i := h.Streams()[0]; i.Takeovers != 1 || i.Publisher != "second" {
		t.Errorf("%+v, want one takeover, by second", i)
	}
	h.done(second, nil)
	h.Close()
}

// Publishers that reconnect at once and replace each other do so once in LeastStay, however many
// they are. A publisher that has been connected for longer is replaced at once.
func TestTwoPublishersReplaceEachOther(t *testing.T) {
	for _, publishers := range []int{2, 5} {
		synctest.Test(t, func(t *testing.T) {
			h := newHubTest(t, nil)
			var all sync.WaitGroup
			began := time.Now()
			for range publishers {
				all.Go(func() {
					for {
						p, err := h.Open("cam", "test", live.Terms{})
						switch {
						case err == refuse.ErrShutdown:
							return
						case err != nil:
							time.Sleep(time.Millisecond)
							continue
						}
						p.Begin(flv.Header{HasVideo: true})
						h.send(p, picture(true, 0, 10))
						<-p.Lifetime().Done()
						h.done(p, context.Cause(p.Lifetime()))
					}
				})
			}
			const turns = 10
			time.Sleep(turns*live.LeastStay + live.LeastStay/2)
			if st := h.Stats(); st.Takeovers != turns {
				t.Errorf("%d takeovers in %v, want %d", st.Takeovers, time.Since(began), turns)
			}
			h.Drain(t.Context())
			all.Wait()

			h = newHubTest(t, nil)
			first := h.publish(picture(true, 0, 10))
			time.Sleep(live.LeastStay)
			go func() {
				<-first.Lifetime().Done()
				h.done(first, context.Cause(first.Lifetime()))
			}()
			began = time.Now()
			second := h.open()
			if d := time.Since(began); d > 0 {
				t.Errorf("the second publisher waited for %v", d)
			}
			h.done(second, nil)
			h.Drain(t.Context())
		})
	}
}

// While a publisher waits to take over, a later one takes its place. If publishers must be stalled
// to be replaced, the later one is refused.
func TestLatestPublisherTakesOver(t *testing.T) {
	for _, policy := range []live.Takeover{live.TakeoverAlways, live.TakeoverStalled} {
		synctest.Test(t, func(t *testing.T) {
			h := newHubTest(t, func(c *live.Config) { c.Takeover = policy })
			first := h.publish(newScript(1, 2, 100).tags...)
			time.Sleep(live.StalledAfter)
			go func() {
				<-first.Lifetime().Done()
				time.Sleep(time.Second)
				h.done(first, context.Cause(first.Lifetime()))
			}()
			var err error
			var took time.Duration
			var second *live.Publisher
			go func() {
				began := time.Now()
				second, err = h.Open("cam", "second", live.Terms{})
				took = time.Since(began)
			}()
			synctest.Wait()
			third, refused := h.Open("cam", "third", live.Terms{})
			synctest.Wait()
			if policy == live.TakeoverStalled {
				time.Sleep(2 * time.Second) // until the second publisher has the stream
				synctest.Wait()
				if live.PublishStatus(refused) != http.StatusConflict || err != nil {
					t.Fatalf("the third: %v, the second: %v", refused, err)
				}
				third = second
			} else if refused != nil || err != live.ErrTakenOver || took != 0 {
				t.Errorf("the third: %v, the second: %v after %v", refused, err, took)
			}
			h.done(third, nil)
			if st := h.Stats(); st.Takeovers != 1 {
				t.Errorf("%d takeovers, want 1", st.Takeovers)
			}
			h.Drain(t.Context())
		})
	}
}

// A publisher with other track numbers continues with its own first keyframe.
func TestAPublisherOfOtherTracksComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, nil)
		h.done(h.publish(avcHeader(), picture(true, 0, 10)), io.ErrUnexpectedEOF)
		w := h.view()
		w.read()
		tags := [][]byte{
			listed(flv.TypeVideo, 0, 1, "\x90avc1header"),
			listed(flv.TypeVideo, 0, 1, "\xa1avc1picture"),
			listed(flv.TypeVideo, 40, 1, "\x91avc1key"),
		}
		p := h.publish(tags...)
		same(t, "what continues", untimed(w.read()), untimed([][]byte{tags[0], tags[2]}))
		w.v.Start().Cursor.Close()
		h.done(p, nil)
		h.Close()
	})
}

// A publisher that does not end when it is told to keeps its stream, and the new one is refused.
func TestPublisherThatDoesNotEndIsNotReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHubTest(t, nil)
		first := h.publish(newScript(1, 2, 100).tags...)
		began := time.Now()
		_, err := h.Open("cam", "second", live.Terms{})
		if live.PublishStatus(err) != http.StatusConflict || time.Since(began) != limit.Grace {
			t.Errorf("%v after %v, want status 409 after %v", err, time.Since(began), limit.Grace)
		}
		h.done(first, nil)
		if st := h.Stats(); st.Waiting != 1 || st.Takeovers != 0 {
			t.Errorf("%d wait, %d takeovers", st.Waiting, st.Takeovers)
		}
		h.Drain(t.Context())
	})
}

// Of several simultaneous publishers, one stays. Viewers stay, and get whole tags in order.
func TestManyPublishersAtOnce(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.PublisherReturn = testTimeout })
	sc := newScript(3, 5, 300)
	p := f.Publisher("cam")
	p.Send(sc.whole())
	f.published("cam", len(sc.whole())-len(sc.header))
	w := f.Watcher("/live/cam", 0)
	got := make(chan []byte, 1)
	go func() { got <- w.Rest() }()
	const n = 16
	publishers, answers := []*livetest.Publisher{p}, make(chan livetest.Response, n+1)
	for range n {
		publishers = append(publishers, f.Publisher("cam"))
	}
	for i, p := range publishers {
		go func() {
			if i > 0 {
				_, _ = p.Body.Write(sc.whole()) // the publisher may have been refused
			}
			answers <- p.Wait()
		}()
	}
	for range n {
		// 0 means that it was still sending.
		if res := <-answers; res.Status != http.StatusConflict && res.Status != 0 {
			t.Errorf("a publisher that was replaced: %d %s", res.Status, res.Body)
		}
	}
	for _, p := range publishers {
		_ = p.Body.Close()
	}
	if res := <-answers; res.Status != http.StatusOK {
		t.Errorf("the one that is left: %d %s", res.Status, res.Body)
	}
	f.Logged("publisher ended", "status=409", live.ErrTakenOver.Error())
	f.stop()
	checkClock(t, cut(t, (<-got)[len(sc.header):]))
}

// Publishers connect, send some tags, and end in any way, while others do the same and the Hub is
// closed. There is never more than one writer, and all of them end.
func TestPublishersComeAndGo(t *testing.T) {
	for _, policy := range []live.Takeover{live.TakeoverAlways, live.TakeoverStalled,
		live.TakeoverNever} {
		synctest.Test(t, func(t *testing.T) {
			h := newHubTest(t, func(c *live.Config) {
				c.Takeover, c.PublisherReturn = policy, 2*time.Millisecond
			})
			sc := newScript(1, 3, 100)
			var writing, all sync.WaitGroup
			var writers sync.Mutex // TryLock fails if there are two writers
			for n := range 8 {
				writing.Go(func() {
					rnd := rand.New(rand.NewPCG(uint64(n), 1))
					for range 100 {
						p, err := h.Open("cam", "test", live.Terms{})
						if err != nil {
							if live.PublishStatus(err) != http.StatusConflict &&
								err != refuse.ErrShutdown {
								t.Errorf("a refused publisher got %v, want status 409 or "+
									"ErrShutdown", err)
							}
							time.Sleep(time.Millisecond)
							continue
						}
						if !writers.TryLock() {
							t.Error("two publishers at a time")
							return
						}
						if rnd.IntN(8) > 0 {
							p.Begin(flv.Header{HasVideo: true, HasAudio: true})
							h.send(p, sc.tags[:rnd.IntN(len(sc.tags))]...)
						}
						if policy == live.TakeoverAlways && rnd.IntN(4) == 0 {
							<-p.Lifetime().Done()
						} else if rnd.IntN(2) == 0 {
							time.Sleep(time.Duration(rnd.IntN(3)) * time.Millisecond)
						}
						writers.Unlock()
						h.done(p, []error{nil, io.ErrUnexpectedEOF, live.ErrPanic}[rnd.IntN(3)])
					}
				})
			}
			all.Go(writing.Wait)
			// Publishers that wait to take over end with the Hub.
			time.Sleep(5 * live.LeastStay)
			h.Drain(t.Context())
			all.Wait()
			if n := len(h.Streams()); n > 0 {
				t.Errorf("%s: %d streams are left", policy, n)
			}
		})
	}
}

// Draining does not wait for a publisher to return, and viewers get the end of the stream.
func TestDrainEndsStreamsThatWait(t *testing.T) {
	f := serve(t, func(c *live.Config) { c.PublisherReturn = time.Hour })
	sc := newScript(1, 5, 500)
	p := f.Publisher("cam")
	p.Send(sc.whole())
	f.published("cam", len(sc.whole())-len(sc.header))
	w := f.Watcher("/live/cam", 0)
	p.Cut()
	f.waits("cam")
	f.stop()
	same(t, "the stream", w.Rest(), sc.whole())
	if st := f.Stats(); st.Waiting != 0 || st.Streams != 0 {
		t.Errorf("%d streams, %d wait", st.Streams, st.Waiting)
	}
	if strings.Contains(f.Log.String(), "time is up") {
		t.Error("draining has waited")
	}
}

// If publishers have used up the time for draining, and there are no viewers, no viewers are
// disconnected.
func TestDrainWithoutViewers(t *testing.T) {
	for range 20 { // a select would choose at random
		f := serve(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.Drain(ctx)
		if log := f.Log.String(); strings.Contains(log, "level=WARN") {
			t.Fatal(log)
		}
	}
}

// waits waits until the stream has no publisher.
func (f *fixture) waits(name string) {
	f.T.Helper()
	eventually(f.T, name+" to wait for its publisher", func() bool {
		for _, s := range f.Streams() {
			if s.Name == name {
				return s.Waiting > 0
			}
		}
		return false
	})
}

// A publisher is disconnected at any moment and returns. Its viewers stay, and get whole tags in
// order, and as MP4 every frame without a pause.
func TestPublisherCutAnywhereContinues(t *testing.T) {
	t.Parallel()
	sc := newScript(3, 5, 500)
	whole := sc.whole()
	start, first := len(sc.start()), len(sc.start())+len(sc.tags[0])
	for _, tt := range []struct {
		name  string
		at    int
		whole int // whole tags after the headers
	}{
		{"before the headers", len(sc.header), -len(sc.config)},
		{"between the headers", len(sc.header) + len(sc.config[0]), 1 - len(sc.config)},
		{"in a sequence header", start - 10, -1},
		{"before the first frame", start, 0},
		{"in the first header", start + 1, 0},
		{"before a body", start + 11, 0},
		{"in a body", start + 200, 0},
		{"before the end of a tag", first - 4, 0},
		{"in the end of a tag", first - 1, 0},
		{"between tags", first, 1},
		{"in sound", first + 20, 1},
		{"behind a group", len(sc.from(0)) - len(join(sc.tags[sc.keys[2]:])), sc.keys[2]},
		{"in the last tag", len(whole) - 1, len(sc.tags) - 1},
		{"at the end", len(whole), len(sc.tags)},
	} {
		atEachLatency(t, tt.name, func(c *live.Config) { c.PublisherReturn = testTimeout },
			func(t *testing.T, f *fixture) {
				flvView, mp4View := f.Ask("/live/cam", 0), f.Ask("/live/cam.mp4", 0)
				f.waiting("cam", 2)
				p := f.Publisher("cam")
				p.Send(whole[:tt.at])
				f.published("cam", len(join(append(sc.config,
					sc.tags...)[:len(sc.config)+tt.whole])))
				flvView.Begin()
				mp4View.Begin()
				p.Cut()
				f.waits("cam")
				p = f.Publisher("cam")
				p.Send(whole)
				if res := p.End(); res.Status != http.StatusOK ||
					!strings.Contains(res.Body,
						fmt.Sprintf(`"frames":%d,`, len(sc.config)+len(sc.tags))) {
					t.Errorf("the second publisher: %d %s", res.Status, res.Body)
				}
				f.stop()
				tags := cut(t, flvView.Rest()[len(sc.header):])
				checkClock(t, tags)
				want := append(append([][]byte{}, sc.config...), sc.tags[:max(tt.whole, 0)]...)
				same(t, "FLV", untimed(tags), untimed(append(want, sc.tags...)))
				list := stretches(t, mp4View.Rest())
				if before := len(want) - 1; before >= len(sc.config) &&
					timeOf(tags[before+1])-timeOf(tags[before]) > 100 {
					// The machine was busy, so the file continues without the pause, perhaps
					// without a waiting sample.
					return
				}
				if n, want := contiguous(t, list), max(tt.whole, 0)+len(sc.tags); n != want {
					t.Errorf("%d samples of MP4, want %d", n, want)
				}
			})
	}
}

// MP4 continues without the time that had no publisher. It ends if the codecs have changed.
func TestMP4ContinuesAfterPublisherReturns(t *testing.T) {
	for _, changed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			sc := newScript(4, 10, 500)
			l := newMill(t, func(c *live.Config) { c.PublisherReturn = time.Minute }, sc)
			h := &hubTest{l.p.Hub(), t}
			l.begin()
			l.publish(len(sc.tags))
			h.done(l.p, io.ErrUnexpectedEOF)
			time.Sleep(30 * time.Second)
			config := append([][]byte{}, sc.config...)
			if changed {
				config[2] = flvTag(flv.TypeAudio, 0, []byte("\xaf\x00\x11\x90"))
			}
			l.p = h.publish(append(config, sc.tags...)...)
			h.Close()
			file := l.end()
			want := 2 * len(sc.tags)
			if changed {
				want = len(sc.tags)
			}
			if n := contiguous(t, stretches(t, file)); n != want {
				t.Errorf("%d samples, want %d; codecs changed: %v", n, want, changed)
			}
			if why, want := l.r.Fanout().Reason(),
				map[bool]fanout.Reason{true: fanout.CodecsChanged,
					false: fanout.StreamEnded}[changed]; why != want {
				t.Errorf("viewers end with %q, want %q", why, want)
			}
			for _, r := range stretches(t, file) {
				if most := int64(2 * 40 * (len(sc.tags) + 10)); r.track == 1 && r.end/16 > most {
					t.Errorf("the file lasts for %d ms, want %d at most: the pause is in it",
						r.end/16, most)
				}
			}
		})
	}
}
