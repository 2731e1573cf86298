package flvstream

import (
	"slices"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// A Preamble holds the tags that a viewer needs before it can start at a keyframe. They are in the
// order in which the viewer gets them. The tags are copies, because a reference to a small tag
// would keep the whole block in which the tag arrived. The owner calls Release at the end.
type Preamble struct {
	// Without marks the tracks that have no frames at present. Clone omits their parts.
	Without struct{ Video, Audio bool }

	parts []part // sorted by place
}

// A part is the newest tag with a certain place; see placeOf.
type part struct {
	place int
	tag   millrace.Chain
}

const (
	// MaxPart limits a tag that is kept for later viewers, in bytes. The limit is needed because a
	// stream keeps these tags in addition to its ring. Sequence headers and metadata have hundreds
	// of bytes.
	MaxPart = 256 << 10
	// maxTrackParts limits how many sequence headers and metadata are kept for tracks other than
	// the default ones. All of these together may have at most MaxPart bytes. Encoders send fewer
	// than ten such tracks.
	maxTrackParts = 32
	// trackPlace is the first place that belongs to a track other than the default ones.
	trackPlace = 5
)

// placeOf returns the place of a tag in a preamble, or -1 if the tag is not kept. The metadata of
// the stream come first. Then follow the tags of each track: the video sequence header, the video
// metadata, and the same two for audio.
func placeOf(t flv.Tag) int {
	place := 1 + 4*int(t.Track)
	if t.Type == flv.TypeAudio {
		place += 2
	}
	switch {
	case t.Len() > MaxPart:
		return -1
	case t.Metadata:
		return 0
	case t.SequenceHeader:
		return place
	case t.Packet == flv.PacketMetadata:
		return place + 1
	}
	return -1
}

// InPreamble reports whether a Preamble keeps tags like t.
func InPreamble(t flv.Tag) bool { return placeOf(t) >= 0 }

// Part returns the Chain in which p keeps tags like t, or nil if p must not keep t. p keeps
// ownership of the Chain.
func (p *Preamble) Part(t flv.Tag) *millrace.Chain {
	place := placeOf(t)
	if place < 0 {
		return nil
	}
	others, bytes := 0, t.Len() // for tracks other than the default ones
	for i := range p.parts {
		if q := &p.parts[i]; q.place >= trackPlace && q.place != place {
			others++
			bytes += q.tag.Len()
		}
	}
	if place >= trackPlace && (others >= maxTrackParts || bytes > MaxPart) {
		return nil
	}
	i, found := slices.BinarySearchFunc(p.parts, place,
		func(q part, place int) int { return q.place - place })
	if !found {
		p.parts = slices.Insert(p.parts, i, part{place: place})
	}
	return &p.parts[i].tag
}

// Clone appends references to the parts to dst, which then owns them. It omits the parts of the
// tracks in Without.
func (p *Preamble) Clone(dst *millrace.Chain) {
	for i := range p.parts {
		kind := p.parts[i].kind()
		if kind == flv.TypeAudio && p.Without.Audio || kind == flv.TypeVideo && p.Without.Video {
			continue
		}
		p.parts[i].tag.Clone(dst)
	}
}

func (p *part) kind() flv.Type {
	switch {
	case p.place == 0:
		return flv.TypeScript
	case (p.place-1)%4 >= 2:
		return flv.TypeAudio
	}
	return flv.TypeVideo
}

// RetimeHeaders appends the parts of the tracks with the type of t to dst, which then owns them.
// The parts get the timestamp of t.
func (p *Preamble) RetimeHeaders(dst *millrace.Chain, enc *flv.Encoder, t flv.Tag) {
	for i := range p.parts {
		if p.parts[i].kind() == t.Type {
			enc.Retime(dst, &p.parts[i].tag, t.Timestamp)
		}
	}
}

// Release releases all parts.
func (p *Preamble) Release() {
	for i := range p.parts {
		p.parts[i].tag.Release()
	}
}

// MaxUnkept limits how many unpublished bytes may come before a frame, in addition to a multiple of
// the frame's own size. Such bytes may share a block with the frame, and then stay in memory as
// long as the frame. If there are more, the frame is copied, because a stream could otherwise keep
// a multiple of KeepBytes.
const MaxUnkept = 1 << 10

// Keep replaces part by a copy of c in a block of p. It borrows c.
func Keep(p *millrace.Pool, part, c *millrace.Chain) {
	part.Release()
	d := p.Get(c.Len())
	r := d.Freeze(c.CopyTo(d.Bytes()))
	part.Append(&r)
}
