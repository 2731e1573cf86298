package server

import (
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/frame/flv"
)

// blackoutAfter is how much of a stream, in ms, passes without a picture before those who come are no longer left to wait for
// the next one. As long as pictures come, a key frame comes too; encoders of slides send one every few seconds.
const blackoutAfter = 10_000

// A blackout watches for pictures that stay away while the sound goes on, and of which nothing is kept that a viewer could start
// at: the camera is off, or its sequence header was a promise. Viewers who come then would wait without an end. Pictures that
// are kept are worth more than being on time: x264 holds back forty of a still picture, which may be as many seconds, and
// what it sends behind them can't be decoded without their key frame.
type blackout struct {
	dark     bool   // it is one
	counting bool   // there was sound since the last picture
	since    uint32 // the first such: sound is compared with sound, because encoders' pictures may have times of their own
}

// note takes the next tag of what is in the ring, and reports whether there is a blackout.
func (b *blackout) note(t flv.Tag, ring *broadcast.Ring) bool {
	switch {
	case t.Packet != flv.PacketFrame || t.Track != 0: // viewers start at the default track
	case t.Type == flv.TypeVideo:
		b.dark, b.counting = false, false
	case !b.counting || int32(t.Timestamp-b.since) < 0: // or the times have begun anew
		b.counting, b.since = true, t.Timestamp
	case t.Timestamp-b.since >= blackoutAfter && !b.dark:
		b.dark = !ring.Stats().Start
	}
	return b.dark
}
