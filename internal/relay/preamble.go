package relay

import (
	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

// maxTrackParts is how many sequence headers and pieces of information are kept of tracks beside the default ones. They
// are kept in maxPart bytes together. Encoders send fewer than ten such tracks.
const maxTrackParts = 32

// defaultTracks says which kinds of a stream have a default track. Only enhanced FLV of several tracks may have none. A player
// takes the default track unless it is told otherwise.
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

// A trackPart is what viewers need before they can start with a track that is not the default one.
type trackPart struct {
	kind   flv.Type
	packet flv.Packet
	track  byte
	tag    millrace.Chain
}

// other is part for tracks other than the default ones.
func (p *Publisher) other(t flv.Tag) *millrace.Chain {
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
