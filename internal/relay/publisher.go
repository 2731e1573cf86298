package relay

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/debug"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

var (
	// errEmpty refuses a body without a byte.
	errEmpty = errors.New("the body is empty")
	// errSecondHeader refuses a second file after the first one: its times begin anew, and it may be of other codecs.
	errSecondHeader = errors.New("a second FLV header in the body: files do not become one stream by standing one behind the " +
		"other, join them first (ffmpeg -f concat), or send one after the other")
	// errPanic ends a stream after a panic in this package.
	errPanic = errors.New("internal error")
)

// rawChunk bounds how much of a stream of unknown format is relayed at a time.
const rawChunk = 64 << 10

// A Publisher feeds one stream, from [Hub.Open] to Close, with FLV tags (Begin, then WriteTag) or with what a body has
// (ReadBody). One goroutine at a time may use it.
type Publisher struct {
	s     *stream
	r     *millrace.Reader // of ReadBody
	frame millrace.Chain   // being moved; empty between frames
	meter meter

	starts    startFinder
	gapLogged bool
	hope      hopeTimer
	resized   bool // the metadata have changed, and with them perhaps the size of the picture

	preamble preamble
	size     string // of the picture, as in 640x360; "" if not known
}

// Open begins a stream of the given name; address says in logs and in the API who publishes it. An error is a
// [Refusal]. Viewers find the stream when its format is known. The caller ends it with Close, and then calls Done.
func (h *Hub) Open(name, address string) (*Publisher, error) {
	err := CheckName(name)
	s := h.newStream(name, address)
	if err == nil {
		err = h.claim(s)
	}
	if err != nil {
		return nil, err
	}
	return &Publisher{s: s}, nil
}

// Close ends the stream: its viewers get what there is, and the name is free. err, which may be nil, is logged.
func (p *Publisher) Close(err error) {
	if p.s.live != nil {
		p.meter.noteCuts(p.s)
	}
	p.s.end()
	if p.r != nil {
		p.r.Release()
	}
	p.preamble.release()
	p.frame.Release()
	p.s.log.Info("publisher ended", "publisher", p.s.publisher, "reason", explain(err), "status", publishStatus(err),
		"bytes", p.s.bytesIn.Load(), "frames", p.s.framesIn.Load(), "time", time.Since(p.s.started).Round(time.Millisecond))
}

// Context ends when p is to end.
func (p *Publisher) Context() context.Context { return p.s.hub.ends }

// Done tells the Hub that the publisher has been answered: Drain waits for that.
func (p *Publisher) Done() { p.s.hub.publishers.Done() }

// Begin says that FLV tags will come, and lets viewers find the stream.
func (p *Publisher) Begin(h flv.Header) {
	var head millrace.Chain
	flv.AppendHeader(&head, h)
	p.s.open(formatFLV, bytes.Clone(head.Bytes()))
	head.Release()
}

// Flush has the viewers served now with what was published: nothing more will come for a while.
func (p *Publisher) Flush() {
	if p.s.live != nil {
		p.s.live.ring.Flush()
	}
}

// ReadBody publishes all of body: FLV if it begins like that, and otherwise bytes as they come. It returns nil when the
// body ends where it may end. A panic is logged, and ends this stream alone.
func (p *Publisher) ReadBody(body io.Reader) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			p.s.log.Error("publishing failed", "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	p.r = millrace.NewReader(body)
	isFLV, err := p.sniff()
	switch {
	case err != nil:
	case isFLV:
		err = p.readFLV()
	default:
		err = p.readRaw()
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// sniff looks at the first bytes, no further than it takes to know.
func (p *Publisher) sniff() (isFLV bool, err error) {
	const signature = "FLV\x01"
	for n := 1; n <= flvHeader; n++ {
		b, err := p.r.Peek(n)
		if len(b) == 0 && err == io.EOF {
			return false, errEmpty
		}
		if k := min(len(b), len(signature)); string(b[:k]) != signature[:k] {
			return false, nil
		}
		if err == io.EOF {
			return len(b) >= len(signature), nil // a cut header, or less than shows what it is
		}
		if err != nil {
			return false, err
		}
		if n == flvHeader {
			return flv.Sniff(b), nil
		}
	}
	return false, nil
}

// readRaw relays bytes as they come.
func (p *Publisher) readRaw() error {
	p.s.open(formatRaw, nil)
	for {
		if _, err := p.r.Peek(1); err != nil {
			return err
		}
		n := min(p.r.Buffered(), rawChunk)
		if err := p.r.ReadChain(&p.frame, n); err != nil {
			return err
		}
		if err := p.s.publish(&p.frame, true); err != nil {
			return err
		}
		p.meter.add(p.s, n)
	}
}

// readFLV cuts the body into tags.
func (p *Publisher) readFLV() error {
	dec := flv.NewDecoder(p.r, flv.MaxTag(min(p.s.hub.cfg.MaxTagBytes, flv.MaxData)))
	header, err := dec.Header()
	if err != nil {
		return err
	}
	p.Begin(header)
	for {
		if err := p.next(dec); err != nil {
			return err
		}
	}
}

// next moves one tag.
func (p *Publisher) next(dec *flv.Decoder) error {
	t, err := dec.Next(&p.frame)
	if err != nil {
		return p.fault(err)
	}
	return p.WriteTag(t, &p.frame)
}

// fault looks closer at what ended the stream. A header where a tag is due would be one of 5,002,753 bytes: "LV\x01".
func (p *Publisher) fault(err error) error {
	var limit *flv.LimitError
	if !errors.As(err, &limit) {
		return err
	}
	if b, _ := p.r.Peek(min(p.r.Buffered(), flvHeader)); flv.Sniff(b) { // a tag that is refused stays where it is
		return errSecondHeader
	}
	return err
}

// flvHeader is how many bytes of a stream tell that it is FLV.
const flvHeader = 9

// WriteTag publishes a tag. It takes ownership of c, which holds all of it.
func (p *Publisher) WriteTag(t flv.Tag, c *millrace.Chain) error {
	p.meter.add(p.s, t.Len())
	p.starts.note(t)
	switch {
	case p.starts.first.beside(t): // what people and MP4 get is the default track
	case t.Codec == 0: // of no codec, or of several
	case t.Type == flv.TypeVideo && (p.resized || !p.s.video.Load().is(t.Codec)):
		p.resized = false
		p.s.describe(t, p.size)
	case t.Type == flv.TypeAudio && !p.s.audio.Load().is(t.Codec):
		p.s.describe(t, "")
	}
	p.settle(t)
	if part := p.preamble.part(t); part != nil {
		return p.configure(t, c, part)
	}
	return p.s.publish(c, p.isStart(t))
}

// hopeWait is how much of a stream, in ms, passes before it is taken to have all of its codecs. Publishers send their
// sequence headers at once, but a piece of sound may come in front of the pictures' one.
const hopeWait = 1000

// A hopeTimer tells from the times of frames when hopeWait has passed.
type hopeTimer struct {
	began bool   // there was a frame
	since uint32 // the time of the first one
}

// passed reports whether hopeWait has passed at a frame.
func (h *hopeTimer) passed(at uint32) bool {
	if !h.began || int32(at-h.since) < 0 { // times may go back, and begin anew
		h.began, h.since = true, at
	}
	return at-h.since >= hopeWait
}

// settle notes when so much of the stream has passed.
func (p *Publisher) settle(t flv.Tag) {
	if t.Packet == flv.PacketFrame && p.hope.passed(t.Timestamp) && !p.s.settled.Load() {
		p.s.settled.Store(true)
	}
}

// isStart reports whether viewers can start at a tag, and notes whether they begin with the sound.
func (p *Publisher) isStart(t flv.Tag) bool {
	start := p.starts.isStart(t, p.s.live.ring)
	if gap := p.starts.gap.open; gap != p.s.noVideo.Load() {
		p.s.noVideo.Store(gap)
		if !p.gapLogged {
			p.gapLogged = true
			p.s.log.Info("there is sound, but no picture has come for a while: new viewers begin with the sound",
				"while", videoGapAfter*time.Millisecond)
		}
	}
	return start
}

// configure publishes a tag that viewers to come need as well.
func (p *Publisher) configure(t flv.Tag, c, part *millrace.Chain) error {
	keep(part, c)
	if t.Metadata {
		p.size = pictureSize(part.Bytes())
		p.resized = true
	}
	var preamble millrace.Chain
	p.preamble.clone(&preamble)
	return p.s.configure(c, &preamble)
}

// pictureSize finds width and height in an onMetaData tag: two AMF numbers behind their names. It borrows tag.
func pictureSize(tag []byte) string {
	number := func(name string) (int, bool) {
		_, after, ok := bytes.Cut(tag, []byte(name))
		if !ok || len(after) < 8 {
			return 0, false
		}
		v := math.Float64frombits(binary.BigEndian.Uint64(after))
		return int(v), v >= 1 && v <= 1<<16
	}
	width, ok := number("\x00\x05width\x00")
	height, too := number("\x00\x06height\x00")
	if !ok || !too {
		return ""
	}
	return fmt.Sprintf("%dx%d", width, height)
}

// A meter measures a stream's bits per second.
type meter struct {
	since int64 // see now
	bytes int64
	cuts  int64 // groups of pictures that noteCuts has counted
}

// add counts n bytes that have come just now. Once a second it sums up.
func (m *meter) add(s *stream, n int) {
	at := now()
	if m.since == 0 {
		m.since = at
	}
	m.bytes += int64(n)
	elapsed := at - m.since
	if elapsed < 1e9 {
		return
	}
	rate := int64(float64(m.bytes) * 8e9 / float64(elapsed))
	if last := s.rate.Load(); last > 0 {
		rate = (rate + last) / 2 // a key frame more or less in a second should not make the figure jump
	}
	s.rate.Store(rate)
	m.since, m.bytes = at, 0
	m.noteCuts(s)
}

// noteCuts counts the groups of pictures that have lost their key frame to what is kept.
func (m *meter) noteCuts(s *stream) {
	n := int64(s.live.ring.Stats().GroupsCut)
	if n == m.cuts {
		return
	}
	s.hub.counters.groupsCut.Add(n - m.cuts)
	if m.cuts == 0 {
		cfg := &s.hub.cfg
		s.log.Warn("a group of pictures is longer than what is kept: late viewers get nothing until the next key frame "+
			"(--keep-bytes, --keep-frames, or a shorter key frame interval)",
			"keep-bytes", cfg.KeepBytes, "keep-frames", cfg.KeepFrames)
	}
	m.cuts = n
}
