package server

import (
	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/flv"
)

// maxTrackParts is how many sequence headers and pieces of information are kept of tracks beside the default ones. They
// are kept in maxPart bytes together. Encoders send fewer than ten such tracks.
const maxTrackParts = 32

// defaults says which of a stream's kinds of tracks have a default one, as all have that are not enhanced FLV of several
// tracks. The others stand beside it: a player takes the default track unless it is told otherwise.
type defaults struct{ video, audio bool }

func (d *defaults) note(t flv.Tag) {
	switch {
	case t.Track != 0 || t.Packet != flv.PacketFrame && !t.SequenceHeader:
	case t.Type == flv.TypeVideo:
		d.video = true
	case t.Type == flv.TypeAudio:
		d.audio = true
	}
}

// beside reports whether t is of a track that stands beside a default one.
func (d *defaults) beside(t flv.Tag) bool {
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
func (in *ingest) other(t flv.Tag) *millrace.Chain {
	if !t.SequenceHeader && t.Packet != flv.PacketMetadata {
		return nil
	}
	bytes, found := t.Len(), (*trackPart)(nil)
	for i := range in.others {
		if p := &in.others[i]; p.kind == t.Type && p.packet == t.Packet && p.track == t.Track {
			found = p
		} else {
			bytes += p.tag.Len()
		}
	}
	switch {
	case bytes > maxPart || found == nil && len(in.others) == maxTrackParts:
		return nil
	case found == nil:
		in.others = append(in.others, trackPart{kind: t.Type, packet: t.Packet, track: t.Track})
		found = &in.others[len(in.others)-1]
	}
	return &found.tag
}
