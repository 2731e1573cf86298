package flvstream

import (
	"github.com/millrace-io/millrace/media/flv"
)

// A StartFinder finds the tags of a stream at which viewers can start. Viewers can start at
// keyframes. If the stream has a default video track, viewers can start only at the keyframes of
// this track. If the stream has no video, viewers can start at each audio frame.
type StartFinder struct {
	Video bool // a video frame or a video sequence header has come
	Gap   VideoGap

	first defaultTracks
}

// Note processes the next tag.
func (f *StartFinder) Note(t flv.Tag) {
	f.first.note(t)
	f.Video = f.Video || t.Type == flv.TypeVideo &&
		(t.Packet == flv.PacketFrame || t.SequenceHeader)
}

// IsStart reports whether a new viewer can start at the tag t. The caller must have passed t to
// Note. The function hasKeyframe must report whether the stream still has a keyframe at which
// viewers can start; see [VideoGap.Note].
func (f *StartFinder) IsStart(t flv.Tag, hasKeyframe func() bool) bool {
	if f.first.secondary(t) {
		return false
	}
	gap := f.Video && f.Gap.Note(t, hasKeyframe)
	return t.Key || t.Type == flv.TypeAudio && (gap || !f.Video)
}

// Secondary reports whether the tag t belongs to an additional track, and the stream also has a
// default track of the same type.
func (f *StartFinder) Secondary(t flv.Tag) bool { return f.first.secondary(t) }

// ForgetTracks prepares for the next publisher, which may have other tracks.
func (f *StartFinder) ForgetTracks() { f.first = defaultTracks{} }

// defaultTracks records whether a stream has a default video track and a default audio track. Only
// a stream of enhanced FLV with several tracks may lack a default track. A player uses the default
// tracks unless the player is configured otherwise.
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

func (d *defaultTracks) secondary(t flv.Tag) bool {
	return t.Track != 0 && (t.Type == flv.TypeVideo && d.video || t.Type == flv.TypeAudio &&
		d.audio)
}
