package relay

import (
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
)

// A startFinder tells at which tags of a stream viewers can start: at key frames of the default track, where there is
// one. Without pictures each piece of sound stands alone.
type startFinder struct {
	first    defaultTracks
	pictures bool // there are some, or will be
	gap      videoGap
}

// note takes the next tag.
func (f *startFinder) note(t flv.Tag) {
	f.first.note(t)
	f.pictures = f.pictures || t.Type == flv.TypeVideo && (t.Packet == flv.PacketFrame || t.SequenceHeader)
}

// isStart reports whether viewers can start at t, which was noted, of what is published to ring.
func (f *startFinder) isStart(t flv.Tag, ring *broadcast.Ring) bool {
	if f.first.beside(t) {
		return false
	}
	gap := f.pictures && f.gap.note(t, ring)
	return t.Key || t.Type == flv.TypeAudio && (gap || !f.pictures)
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
