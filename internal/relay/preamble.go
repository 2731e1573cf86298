package relay

import (
	"slices"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

// A preamble holds what a viewer needs before it can start at a key frame, in the order in which it gets it.
// These are copies, because a share of so small a tag would keep the whole block that it came in.
type preamble struct {
	parts   []preamblePart              // by place
	without struct{ video, audio bool } // viewers do not get the parts of such tracks: they have no frames at present
}

// A preamblePart is the newest tag of its place.
type preamblePart struct {
	place int
	tag   millrace.Chain
}

const (
	// maxPart bounds a tag that is kept for viewers to come, in bytes. Sequence headers and metadata have hundreds; the
	// limit keeps what a stream holds beside its ring small.
	maxPart = 256 << 10
	// maxTrackParts is how many sequence headers and pieces of information are kept of tracks beside the default ones.
	// They are kept in maxPart bytes together. Encoders send fewer than ten such tracks.
	maxTrackParts = 32
	// trackPlace is the first place of a track beside the default ones.
	trackPlace = 5
)

// placeOf returns the place of a tag in a preamble: the metadata of the stream stand first, and then for each track the
// sequence header of its pictures, what else is to be known of them, and the same for sound. It returns -1 for a tag that is
// not kept.
func placeOf(t flv.Tag) int {
	place := 1 + 4*int(t.Track)
	if t.Type == flv.TypeAudio {
		place += 2
	}
	switch {
	case t.Len() > maxPart:
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

// part says where a tag is kept; nil for a tag that is not.
func (p *preamble) part(t flv.Tag) *millrace.Chain {
	place := placeOf(t)
	if place < 0 {
		return nil
	}
	others, bytes := 0, t.Len() // of tracks beside the default ones
	for i := range p.parts {
		if part := &p.parts[i]; part.place >= trackPlace && part.place != place {
			others++
			bytes += part.tag.Len()
		}
	}
	if place >= trackPlace && (others >= maxTrackParts || bytes > maxPart) {
		return nil
	}
	i, found := slices.BinarySearchFunc(p.parts, place, func(part preamblePart, place int) int { return part.place - place })
	if !found {
		p.parts = slices.Insert(p.parts, i, preamblePart{place: place})
	}
	return &p.parts[i].tag
}

// clone appends shares of all parts to dst that viewers get.
func (p *preamble) clone(dst *millrace.Chain) {
	for i := range p.parts {
		kind := p.parts[i].kind()
		if kind == flv.TypeAudio && p.without.audio || kind == flv.TypeVideo && p.without.video {
			continue
		}
		p.parts[i].tag.Clone(dst)
	}
}

// kind returns the type of the tag.
func (p *preamblePart) kind() flv.Type {
	switch {
	case p.place == 0:
		return flv.TypeScript
	case (p.place-1)%4 >= 2:
		return flv.TypeAudio
	}
	return flv.TypeVideo
}

func (p *preamble) release() {
	for i := range p.parts {
		p.parts[i].tag.Release()
	}
}

// keep makes part a copy of c, which it borrows, in a block of p.
func keep(p *millrace.Pool, part, c *millrace.Chain) {
	part.Release()
	d := p.Get(c.Len())
	r := d.Freeze(c.CopyTo(d.Bytes()))
	part.Append(&r)
}
