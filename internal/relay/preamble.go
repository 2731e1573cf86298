package relay

import (
	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

// A preamble holds what a viewer of FLV needs before it can start at a key frame, in the order in which it gets it.
// These are copies, because a share of so small a tag would keep the whole block that it came in.
type preamble struct {
	metadata  millrace.Chain
	videoHead millrace.Chain
	videoInfo millrace.Chain
	audioHead millrace.Chain
	audioInfo millrace.Chain
	others    []trackPart // of tracks beside the default ones
}

const (
	// maxPart bounds a tag that is kept for viewers to come, in bytes. Sequence headers and metadata have hundreds; the
	// limit keeps what a stream holds beside its ring small.
	maxPart = 256 << 10
	// maxTrackParts is how many sequence headers and pieces of information are kept of tracks beside the default ones.
	// They are kept in maxPart bytes together. Encoders send fewer than ten such tracks.
	maxTrackParts = 32
)

// A trackPart is what viewers need before they can start with a track that is not the default one.
type trackPart struct {
	kind   flv.Type
	packet flv.Packet
	track  byte
	tag    millrace.Chain
}

// parts lists what is kept.
func (p *preamble) parts() []*millrace.Chain {
	list := []*millrace.Chain{&p.metadata, &p.videoHead, &p.videoInfo, &p.audioHead, &p.audioInfo}
	for i := range p.others {
		list = append(list, &p.others[i].tag)
	}
	return list
}

// clone appends shares of all parts to dst.
func (p *preamble) clone(dst *millrace.Chain) {
	for _, part := range p.parts() {
		part.Clone(dst)
	}
}

func (p *preamble) release() {
	for _, part := range p.parts() {
		part.Release()
	}
}

// keep makes part a copy of c, which it borrows.
func keep(part, c *millrace.Chain) {
	part.Release()
	for piece := range c.All() {
		part.AppendCopy(piece)
	}
}

// part says where a tag is kept; nil for a tag that is not.
func (p *preamble) part(t flv.Tag) *millrace.Chain {
	switch {
	case t.Len() > maxPart:
		return nil
	case t.Metadata:
		return &p.metadata
	case t.Track != 0:
		return p.other(t)
	case t.SequenceHeader && t.Type == flv.TypeVideo:
		return &p.videoHead
	case t.SequenceHeader:
		return &p.audioHead
	case t.Packet == flv.PacketMetadata && t.Type == flv.TypeVideo:
		return &p.videoInfo
	case t.Packet == flv.PacketMetadata:
		return &p.audioInfo
	}
	return nil
}

// other is part for tracks other than the default ones.
func (p *preamble) other(t flv.Tag) *millrace.Chain {
	if !t.SequenceHeader && t.Packet != flv.PacketMetadata {
		return nil
	}
	bytes, found := t.Len(), (*trackPart)(nil)
	for i := range p.others {
		if part := &p.others[i]; part.kind == t.Type && part.packet == t.Packet && part.track == t.Track {
			found = part
		} else {
			bytes += part.tag.Len()
		}
	}
	switch {
	case bytes > maxPart || found == nil && len(p.others) == maxTrackParts:
		return nil
	case found == nil:
		p.others = append(p.others, trackPart{kind: t.Type, packet: t.Packet, track: t.Track})
		found = &p.others[len(p.others)-1]
	}
	return &found.tag
}

// defaultTracks says which kinds of a stream have a default track. Only enhanced FLV of several tracks may have none. A
// player takes the default track unless it is told otherwise.
type defaultTracks struct{ video, audio bool }

func (d *defaultTracks) note(t flv.Tag) {
	switch {
	case t.Track != 0 || t.Packet != flv.PacketFrame && !t.SequenceHeader:
	case t.Type == flv.TypeVideo:
		d.video = true
	case t.Type == flv.TypeAudio:
		d.audio = true
	}
}

// beside reports whether t is of a track that stands beside a default one.
func (d *defaultTracks) beside(t flv.Tag) bool {
	return t.Track != 0 && (t.Type == flv.TypeVideo && d.video || t.Type == flv.TypeAudio && d.audio)
}
