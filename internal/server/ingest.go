package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

// errEmpty refuses a body without a byte.
var errEmpty = errors.New("the body is empty")

// errSecondHeader refuses a second file behind the first one: its times begin anew, and it may be of other codecs.
var errSecondHeader = errors.New("a second FLV header in the body: files do not become one stream by standing one behind the other, " +
	"join them first (ffmpeg -f concat), or send one after the other")

// rawChunk bounds how much of a stream whose form is not known is relayed at a time.
const rawChunk = 64 << 10

// An ingest moves what a publisher sends into its stream's ring, without copying it.
type ingest struct {
	s     *stream
	r     *millrace.Reader
	frame millrace.Chain // being moved; empty between frames
	meter meter

	video, audio flv.Codec // of the last tag of each kind; 0: none has come, or one of several codecs
	first        defaults
	pictures     bool // there are some, or will be
	blackout     blackout
	told         bool   // that there is one was logged
	began        bool   // there was a frame
	since        uint32 // the time of the first one
	resized      bool   // the metadata have changed, and with them perhaps the size of the picture

	// What a viewer needs before it can start, in the order in which it gets it. Copies, because a share of so small a
	// thing would keep the whole block that it came in.
	metadata  millrace.Chain
	videoHead millrace.Chain
	videoInfo millrace.Chain
	audioHead millrace.Chain
	audioInfo millrace.Chain
	others    []trackPart
	size      string // of the picture, as in 640x360; "" if not known
}

// run moves everything from body to s. It returns nil when the body ends where it may end.
func (s *stream) run(body io.Reader) error {
	in := &ingest{s: s, r: millrace.NewReader(body)}
	defer in.release()
	isFLV, err := in.sniff()
	if err != nil {
		return err
	}
	if isFLV {
		return in.flv()
	}
	return in.raw()
}

func (in *ingest) release() {
	in.r.Release()
	for _, c := range append(in.parts(), &in.frame) {
		c.Release()
	}
}

// parts lists what a viewer needs before it can start.
func (in *ingest) parts() []*millrace.Chain {
	list := []*millrace.Chain{&in.metadata, &in.videoHead, &in.videoInfo, &in.audioHead, &in.audioInfo}
	for i := range in.others {
		list = append(list, &in.others[i].tag)
	}
	return list
}

// sniff looks at the first bytes, no further than it takes to know.
func (in *ingest) sniff() (isFLV bool, err error) {
	const signature = "FLV\x01"
	for n := 1; n <= flvHeader; n++ {
		p, err := in.r.Peek(n)
		if len(p) == 0 && err == io.EOF {
			return false, errEmpty
		}
		if k := min(len(p), len(signature)); string(p[:k]) != signature[:k] {
			return false, nil
		}
		if err == io.EOF {
			return len(p) >= len(signature), nil // a cut header, or less than shows what it is
		}
		if err != nil {
			return false, err
		}
		if n == flvHeader {
			return flv.Sniff(p), nil
		}
	}
	return false, nil
}

// raw relays bytes as they come.
func (in *ingest) raw() error {
	in.s.open(formRaw, nil)
	for {
		if _, err := in.r.Peek(1); err != nil {
			return ended(err)
		}
		n := min(in.r.Buffered(), rawChunk)
		if err := in.r.ReadChain(&in.frame, n); err != nil {
			return ended(err)
		}
		if err := in.s.publish(&in.frame, true); err != nil {
			return err
		}
		in.meter.add(in.s, n)
	}
}

// flv cuts the stream into tags.
func (in *ingest) flv() error {
	dec := flv.NewDecoder(in.r, flv.MaxTag(min(in.s.server.cfg.MaxTagBytes, flv.MaxData)))
	header, err := dec.Header()
	if err != nil {
		return ended(err)
	}
	var head millrace.Chain
	flv.AppendHeader(&head, header)
	in.s.open(formFLV, bytes.Clone(head.Bytes()))
	head.Release()
	for {
		if err := in.next(dec); err != nil {
			return ended(err)
		}
	}
}

// next moves one tag.
func (in *ingest) next(dec *flv.Decoder) error {
	t, err := dec.Next(&in.frame)
	if err != nil {
		return in.fault(err)
	}
	in.meter.add(in.s, t.Len())
	return in.tag(t)
}

// fault looks closer at what ended the stream. A header where a tag is due would be one of 5,002,753 bytes: "LV\x01".
func (in *ingest) fault(err error) error {
	var limit *flv.LimitError
	if !errors.As(err, &limit) {
		return err
	}
	if p, _ := in.r.Peek(min(in.r.Buffered(), flvHeader)); flv.Sniff(p) { // a tag that is refused stays where it is
		return errSecondHeader
	}
	return err
}

// flvHeader is how many bytes of a stream tell that it is FLV.
const flvHeader = 9

// tag publishes the tag in frame.
func (in *ingest) tag(t flv.Tag) error {
	in.first.note(t)
	switch {
	case in.first.beside(t): // what people and MP4 get is the default track
	case t.Type == flv.TypeVideo && (t.Codec != in.video || in.resized) && t.Codec != 0:
		in.video, in.resized = t.Codec, false
		in.s.describe(t, in.size)
	case t.Type == flv.TypeAudio && t.Codec != in.audio && t.Codec != 0:
		in.audio = t.Codec
		in.s.describe(t, "")
	}
	in.settle(t)
	in.pictures = in.pictures || t.Type == flv.TypeVideo && (t.Packet == flv.PacketFrame || t.SequenceHeader)
	if part := in.part(t); part != nil {
		return in.configure(t, part)
	}
	return in.s.publish(&in.frame, in.starts(t))
}

// hopeWait is how much of a stream, in ms, passes before it is taken to have all of its codecs. Publishers send their
// sequence headers at once, but a piece of sound may come in front of the pictures' one.
const hopeWait = 1000

// settle notes when so much of the stream has passed.
func (in *ingest) settle(t flv.Tag) {
	switch {
	case t.Packet != flv.PacketFrame:
	case !in.began || int32(t.Timestamp-in.since) < 0: // times may go back, and begin anew
		in.began, in.since = true, t.Timestamp
	case t.Timestamp-in.since >= hopeWait && !in.s.settled.Load():
		in.s.settled.Store(true)
	}
}

// starts says whether viewers can start at a tag: of the default track, where there is one. Without pictures each piece
// of sound stands alone.
func (in *ingest) starts(t flv.Tag) bool {
	if in.first.beside(t) {
		return false
	}
	dark := in.pictures && in.blackout.note(t, in.s.live.ring)
	if dark != in.s.dark.Load() {
		in.s.dark.Store(dark)
		if !in.told {
			in.told = true
			in.s.log.Info("there is sound, but no picture has come for a while: who comes begins with the sound", "while", blackoutAfter*time.Millisecond)
		}
	}
	return t.Key || t.Type == flv.TypeAudio && (dark || !in.pictures)
}

// part says where a tag is kept that viewers need before they can start; nil for other tags.
func (in *ingest) part(t flv.Tag) *millrace.Chain {
	switch {
	case t.Len() > maxPart:
		return nil
	case t.Metadata:
		return &in.metadata
	case t.Track != 0:
		return in.other(t)
	case t.SequenceHeader && t.Type == flv.TypeVideo:
		return &in.videoHead
	case t.SequenceHeader:
		return &in.audioHead
	case t.Packet == flv.PacketMetadata && t.Type == flv.TypeVideo:
		return &in.videoInfo
	case t.Packet == flv.PacketMetadata:
		return &in.audioInfo
	}
	return nil
}

// maxPart bounds a tag that is kept for viewers to come, in bytes. Sequence headers and metadata have hundreds; the limit
// keeps what a stream holds beside its ring small.
const maxPart = 256 << 10

// configure publishes a tag that viewers to come need as well.
func (in *ingest) configure(t flv.Tag, part *millrace.Chain) error {
	part.Release()
	for piece := range in.frame.All() {
		part.AppendCopy(piece)
	}
	if t.Metadata {
		in.size = pictureSize(part.Bytes())
		in.resized = true
	}
	var preamble millrace.Chain
	for _, p := range in.parts() {
		p.Clone(&preamble)
	}
	return in.s.configure(&in.frame, &preamble)
}

// ended is nil for the end of a stream where it may end.
func ended(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
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
}

// add counts n bytes that have come just now. What else is to be looked at once a second, it looks at.
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
	s.noteCuts()
}
