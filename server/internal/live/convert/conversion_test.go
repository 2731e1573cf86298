package convert

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// header is the header of an FLV stream with audio and video.
const header = "FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00"

// A testReport counts reports.
type testReport struct{ leftOut, unstarted, refused, missed int }

func (r *testReport) Unstarted(n int)              { r.unstarted += n }
func (r *testReport) LeftOut(n int64)              { r.leftOut += int(n) }
func (r *testReport) Refused(flv.Type, error)      { r.refused++ }
func (r *testReport) Missed(lost broadcast.Missed) { r.missed += lost.Frames }

// A testStream is a ring of FLV tags.
type testStream struct {
	t     *testing.T
	facts *flvstream.Facts
	ring  *broadcast.Ring
	enc   flv.Encoder
	now   uint32
	tick  func(time.Duration) // called after each video frame, with its duration; may be nil
}

func noNext(init *millrace.Chain) *broadcast.Ring { // there is no next file
	init.Release()
	return nil
}

func newTestStream(t *testing.T, opts ...broadcast.Option) *testStream {
	s := &testStream{t: t, facts: flvstream.NewFacts(), ring: broadcast.New(opts...)}
	s.facts.Promised = flvstream.VideoFlag | flvstream.AudioFlag
	t.Cleanup(func() {
		s.enc.Release()
		_ = s.ring.Close()
	})
	return s
}

// tag appends a tag to dst.
func (s *testStream) tag(dst *millrace.Chain, kind flv.Type, body []byte) flv.Tag {
	var c millrace.Chain
	c.AppendCopy(body)
	tag, err := s.enc.Append(dst, kind, s.now, &c)
	if err != nil {
		s.t.Fatal(err)
	}
	return tag
}

// publish publishes a tag in the stream.
func (s *testStream) publish(kind flv.Type, body []byte) {
	var c millrace.Chain
	tag := s.tag(&c, kind, body)
	if err := s.ring.Publish(&c, broadcast.Frame{Key: tag.Key}); err != nil {
		s.t.Fatal(err)
	}
}

// source returns the stream, starting with the next tag.
func (s *testStream) source() Source {
	return Source{Facts: s.facts, Head: []byte(header), Cursor: s.ring.Cursor(broadcast.FromHead()),
		MaxTag: 1 << 20, Memory: millrace.DefaultPool()}
}

var (
	avcHeader = []byte(
		"\x17\x00\x00\x00\x00\x01\x42\xc0\x1e\xff\xe1\x00\x15\x67\x42\xc0\x1e\xda\x02\x80\xbf\xe5\xc0\x44\x00\x00\x03\x00\x04\x00\x00\x03\x00\xca\x3c\x58\xba\x80\x01\x00\x04\x68\xce\x0f\xc8")
	keyframe  = []byte("\x17\x01\x00\x00\x00\x00\x00\x00\x05\x65abcd")
	video     = []byte("\x27\x01\x00\x00\x00\x00\x00\x00\x05\x41abcd")
	aacHeader = []byte("\xaf\x00\x12\x10")
	audio     = []byte("\xaf\x01sound")
)

// takeAll returns the frames of a ring and their Infos.
func takeAll(t *testing.T, c *broadcast.Cursor) (frames int, infos []any) {
	t.Helper()
	defer c.Close()
	for {
		var body millrace.Chain
		b, err := c.Take(&body)
		body.Release()
		if b.Frames > 0 {
			frames += b.Frames
			infos = append(infos, b.Info)
		}
		if err != nil || b.Frames == 0 {
			return frames, infos
		}
	}
}

// film publishes two seconds of 25 frames.
func (s *testStream) film() {
	s.publish(flv.TypeVideo, avcHeader)
	s.publish(flv.TypeAudio, aacHeader)
	for i := range 50 {
		if i%25 == 0 {
			s.publish(flv.TypeVideo, keyframe)
		} else {
			s.publish(flv.TypeVideo, video)
		}
		s.publish(flv.TypeAudio, audio)
		s.now += 40
		if s.tick != nil {
			s.tick(40 * time.Millisecond)
		}
	}
}

// A stream is converted from its start to its end. Each MP4 fragment has its description.
func TestConversions(t *testing.T) {
	for name, convert := range map[string]func(Source, Reporter, *broadcast.Ring) *Conversion{
		"RTMP": RTMP,
		"MP4": func(source Source, report Reporter, out *broadcast.Ring) *Conversion {
			return MP4(source, report, out, 1<<20, noNext)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, out, report := newTestStream(t), broadcast.New(), &testReport{}
			view := out.Cursor(broadcast.FromHead(), broadcast.BatchFrames(1))
			c := convert(s.source(), report, out)
			s.film()
			ended := make(chan error)
			go func() { ended <- c.Run(t.Context()) }()
			<-c.Ready()
			_ = s.ring.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			_ = out.Close()
			frames, infos := takeAll(t, view)
			if frames < 50 || *report != (testReport{}) {
				t.Errorf("%d frames, %+v, want 50 or more and nothing left out", frames, report)
			}
			keys, pictures := 0, 0
			for _, info := range infos {
				if f, ok := info.(*Fragment); ok && f.Movie.Video && f.Movie.Audio {
					pictures += f.Pictures
					if f.Key && f.Pictures > 0 {
						keys++
					}
				}
			}
			if name == "MP4" && (keys != 2 || pictures != 50) {
				t.Errorf("%d video frames, %d fragments begin with a keyframe", pictures, keys)
			}
		})
	}
}

// A testMaker calls a function for each tag.
type testMaker func()

func (m testMaker) write(_ flv.Tag, tag *millrace.Chain, _ bool) error {
	tag.Release()
	m()
	return nil
}
func (testMaker) finish() error { return nil }
func (testMaker) release()      {}

// A conversion is ready when it has converted all tags that were there at the start, and not
// before.
func TestConversionIsReady(t *testing.T) {
	for _, batch := range []int{1, 2, 3, 1000} {
		s, out := newTestStream(t), broadcast.New()
		source := s.source()
		source.Cursor.Close()
		source.Cursor = s.ring.Cursor(broadcast.FromHead(), broadcast.BatchFrames(batch))
		c := newConversion(source, &testReport{}, out)
		tags := 0
		c.maker = testMaker(func() {
			tags++
			select {
			case <-c.Ready():
				t.Errorf("batches of %d: ready before tag %d", batch, tags)
			default:
			}
		})
		s.film()
		ended := make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		go func() { ended <- c.Run(ctx) }()
		<-c.Ready()
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) || tags != 102 {
			t.Errorf("batches of %d: %d tags, %v, want 102", batch, tags, err)
		}
		_ = out.Close()
	}
}

// A conversion flushes its ring before it waits for the next tag. Viewers do not wait for the
// latency of this ring in addition to the latency of the stream's ring.
func TestConversionFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, out := newTestStream(t), broadcast.New(broadcast.Latency(time.Hour))
		news := out.Watch()
		defer news.Stop()
		c := RTMP(s.source(), &testReport{}, out)
		ended := make(chan error)
		go func() { ended <- c.Run(t.Context()) }()
		for range 3 {
			s.publish(flv.TypeAudio, audio)
			synctest.Wait()
			select {
			case <-news.C:
			default:
				t.Error("a tag was converted, and the ring was not flushed")
			}
		}
		_ = s.ring.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = out.Close()
	})
}

// The time in an MP4 file continues after a pause of the publisher without a gap.
func TestPauseIsRemovedFromMP4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, out := newTestStream(t), broadcast.New()
		view := out.Cursor(broadcast.FromHead(), broadcast.BatchFrames(1))
		c := MP4(s.source(), &testReport{}, out, 1<<20, noNext)
		ended := make(chan error)
		go func() { ended <- c.Run(t.Context()) }()
		s.tick = time.Sleep
		s.film()
		last := s.now - 40
		s.facts.Resumed.Store(&last)
		s.now += 5000
		time.Sleep(5 * time.Second)
		s.film()
		_ = s.ring.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = out.Close()
		var first, end time.Duration
		pictures := 0
		_, infos := takeAll(t, view)
		for i, info := range infos {
			f := info.(*Fragment)
			if pictures += f.Pictures; i == 0 {
				first = f.Start
			}
			end = max(end, f.End)
		}
		if lasts := end - first; lasts < 3900*time.Millisecond || lasts > 4100*time.Millisecond ||
			pictures != 100 {
			t.Errorf("%d video frames in %v, want 100 in 4 s", pictures, lasts)
		}
	})
}

// A conversion ends with its context, and becomes ready then.
func TestConversionEnds(t *testing.T) {
	s, out := newTestStream(t), broadcast.New()
	defer out.Close()
	c := RTMP(s.source(), &testReport{}, out)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := c.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-c.Ready()
}

// A stream without a codec that MP4 supports ends the conversion.
func TestNoMP4(t *testing.T) {
	s, out := newTestStream(t), broadcast.New()
	defer out.Close()
	c := MP4(s.source(), &testReport{}, out, 1<<20, noNext)
	s.publish(flv.TypeAudio, []byte("\x2fmp3"))
	s.facts.Describe(flv.Tag{Type: flv.TypeAudio, Codec: flv.MP3}, "")
	s.facts.Settled.Store(true)
	if err := c.Run(t.Context()); err != errNoMP4 {
		t.Error(err)
	}
}
