package flvstream

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/media/flv"
)

// Facts describe the current state of a stream. The goroutine of its publisher writes them, and the
// end of the stream calls SetKnown; any goroutine may read them.
type Facts struct {
	// Flags of an FLV header: the tracks that the first publisher announced; does not change.
	Promised uint32
	Tracks   atomic.Uint32 // flags of an FLV header: the tracks that exist
	// Grows when a track has gone, or is back; under the lock of conversions that begin.
	TrackSet atomic.Int32
	// TrackWait has passed: Video and Audio are all tracks that there will be.
	Settled atomic.Bool
	NoVideo atomic.Bool  // see VideoGap: audio frames are keyframes
	Further atomic.Int32 // tracks besides the default ones
	Video   atomic.Pointer[Track]
	Audio   atomic.Pointer[Track]

	Resumed atomic.Pointer[uint32] // the time of the last frame before the newest continuation

	KeyInterval   atomic.Int64 // ms from one keyframe to the next, lately; 0 before there were two
	UsualInterval atomic.Int64 // the same without one outlier: HLS cuts segments by it
	GOP           atomic.Int64 // ms from the latest keyframe to the latest video frame

	known     chan struct{}
	knownOnce sync.Once
}

// NewFacts returns the Facts of a stream without frames.
func NewFacts() *Facts { return &Facts{known: make(chan struct{})} }

// SetKnown says that Tracks are all tracks, as far as that is known.
func (f *Facts) SetKnown() { f.knownOnce.Do(func() { close(f.known) }) }

// Known is closed by SetKnown.
func (f *Facts) Known() <-chan struct{} { return f.known }

// AllPromised reports whether all tracks that were announced exist.
func (f *Facts) AllPromised() bool { return f.Promised&^f.Tracks.Load() == 0 }

// A Track describes the video or audio of a stream.
type Track struct {
	Codec flv.Codec
	Name  string // for people, as in "h264 640x360"
}

// Is reports whether t is known, and of codec c.
func (t *Track) Is(c flv.Codec) bool { return t != nil && t.Codec == c }

// String returns the name, or "none".
func (t *Track) String() string {
	if t == nil {
		return "none"
	}
	return t.Name
}

// Describe notes the track of a tag. size may be "".
func (f *Facts) Describe(t flv.Tag, size string) {
	track := &Track{Codec: t.Codec, Name: strings.TrimSpace(codecName(t.Codec) + " " + size)}
	if t.Type == flv.TypeAudio {
		f.Audio.Store(track)
	} else {
		f.Video.Store(track)
	}
}

// codecName returns the name that people and browsers' consoles use.
func codecName(c flv.Codec) string {
	switch c {
	case flv.AVC:
		return "h264"
	case flv.HEVC:
		return "h265"
	}
	return strings.ToLower(c.String())
}

// LeftOut returns the tracks that MP4 and HLS cannot carry: "video", "audio", "all", or "" for
// none.
func (f *Facts) LeftOut() string {
	video, audio := f.Video.Load(), f.Audio.Load()
	noVideo := video != nil && !video.Is(flv.AVC) && !video.Is(flv.HEVC)
	noAudio := audio != nil && !audio.Is(flv.AAC)
	switch {
	case noVideo && noAudio, f.Settled.Load() &&
		(noVideo && audio == nil || noAudio && video == nil):
		return "all"
	case noVideo:
		return "video"
	case noAudio:
		return "audio"
	}
	return ""
}

// NoMP4 reports whether MP4 has nothing of the stream, and will have nothing.
func (f *Facts) NoMP4() bool { return f.Settled.Load() && f.LeftOut() == "all" }
