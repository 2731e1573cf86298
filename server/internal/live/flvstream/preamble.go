package flvstream

import (
	"slices"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// A Preamble holds the tags that a viewer needs before it can start at a keyframe, in order. They
// are copies, because a reference to a small tag would keep the whole block of memory in which the
// tag arrived. The owner must call Release.
type Preamble struct {
	// Without marks the tracks that have no frames at present. CloneTo omits the tags of these
	// tracks.
	Without struct{ Video, Audio bool }

	parts []part // sorted by place
}

// A part is the newest sequence header or metadata tag of a track in a Preamble.
type part struct {
	place int
	tag   millrace.Chain
}

const (
	// MaxPart is the maximum size, in bytes, of a tag in a Preamble, which a stream keeps in
	// addition to its ring. Sequence headers and metadata are usually smaller than 1 KiB.
	MaxPart = 256 << 10
	// maxTrackParts is the maximum number of tags of additional tracks in a Preamble. Together,
	// these tags may have at most MaxPart bytes. Encoders send fewer than ten such tags.
	maxTrackParts = 32
	// trackPlace is the first place (see placeOf) for tags of additional tracks. The metadata of
	// the stream and the tags of the default tracks come earlier.
	trackPlace = 5
)

// placeOf returns the place of a tag in the order of a Preamble, or -1 if a Preamble does not keep
// the tag. The order is:
//   - the metadata of the stream
//   - for each track number: the video sequence header, the video metadata, the audio sequence
//     header and the audio metadata
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

// InPreamble reports whether t is a sequence header or metadata of at most MaxPart bytes.
func InPreamble(t flv.Tag) bool { return placeOf(t) >= 0 }

// Part returns the Chain in p for tags of the kind and track of t. It holds the previous such tag,
// if there is one. p owns the Chain. If InPreamble(t) is false, or if p has no room for t, Part
// returns nil.
func (p *Preamble) Part(t flv.Tag) *millrace.Chain {
	place := placeOf(t)
	if place < 0 {
		return nil
	}
	others, bytes := 0, t.Len() // other tags of additional tracks; total size including t
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

// CloneTo appends references to the tags of p to dst, which then owns the references. It omits the
// tracks in p.Without.
func (p *Preamble) CloneTo(dst *millrace.Chain) {
	for i := range p.parts {
		kind := p.parts[i].kind()
		if kind == flv.TypeAudio && p.Without.Audio || kind == flv.TypeVideo && p.Without.Video {
			continue
		}
		p.parts[i].tag.CloneTo(dst)
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

// RetimeHeaders appends sequence headers and metadata to dst. If t is a video tag, it appends the
// headers and metadata of all video tracks. If t is an audio tag, it appends the headers and
// metadata of all audio tracks. The appended tags have the timestamp of t, and dst owns them.
func (p *Preamble) RetimeHeaders(dst *millrace.Chain, enc *flv.Encoder, t flv.Tag) {
	for i := range p.parts {
		if p.parts[i].kind() == t.Type {
			enc.Retime(dst, &p.parts[i].tag, t.Timestamp)
		}
	}
}

// Release releases all tags.
func (p *Preamble) Release() {
	for i := range p.parts {
		p.parts[i].tag.Release()
	}
}

// MaxUnkept determines which frames a stream copies. If a frame has n bytes, and the stream has
// dropped more than 2*n + MaxUnkept bytes since the previous frame, the stream copies the frame.
//
// The dropped bytes may share a block of memory with the frame, and the block stays in memory as
// long as the frame. Without the copy, the stream could use several times as much memory as
// KeepBytes allows.
const MaxUnkept = 1 << 10

// Keep replaces the content of dst with a copy of src in a block of the pool p. It borrows src.
func Keep(p *millrace.Pool, dst, src *millrace.Chain) {
	dst.Release()
	d := p.Get(src.Len())
	r := d.Freeze(src.CopyTo(d.Bytes()))
	dst.Append(&r)
}
