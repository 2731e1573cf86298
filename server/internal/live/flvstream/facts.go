package flvstream

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/media/flv"
)

// Facts describe the tracks and the keyframes of a stream. Any goroutine may read them. Only the
// publisher's goroutine may change them, but the code that ends the stream may also call SetKnown.
type Facts struct {
	// The tracks that the first publisher announced, as flags of an FLV header; constant.
	Promised uint32
	Tracks   atomic.Uint32 // the tracks that exist, as flags of an FLV header
	// Counts how often a track has disappeared or returned. A conversion compares the number with
	// an earlier value to notice a change. rendition.Set.mu is held during a change, and also when
	// a conversion begins, so that a conversion cannot begin in the middle of a change.
	TrackSet atomic.Int32
	// True when TrackWait has passed since the first frame. No further tracks are expected then.
	// From that time on, if Video or Audio is nil, the stream does not have this track.
	Settled atomic.Bool
	NoVideo atomic.Bool  // viewers start at audio frames; see VideoGap
	Further atomic.Int32 // number of tracks in addition to the default ones
	Video   atomic.Pointer[Track]
	Audio   atomic.Pointer[Track]

	Resumed atomic.Pointer[uint32] // timestamp of the last frame before the newest pause or gap

	KeyInterval   atomic.Int64 // recent distance of keyframes, in ms; 0 before the second keyframe
	UsualInterval atomic.Int64 // result of KeyMeter.Usual, in ms; sets the length of HLS segments
	GOP           atomic.Int64 // time from the latest keyframe to the latest video frame, in ms

	known     chan struct{}
	knownOnce sync.Once
}

// NewFacts returns the Facts of a stream without frames.
func NewFacts() *Facts { return &Facts{known: make(chan struct{})} }

// SetKnown records that no further tracks are expected: all announced tracks have come, TrackWait
// has passed, or the stream has ended.
func (f *Facts) SetKnown() { f.knownOnce.Do(func() { close(f.known) }) }

// Known returns a channel that is closed when no further tracks are expected; see SetKnown.
func (f *Facts) Known() <-chan struct{} { return f.known }

// AreKnown reports whether no further tracks are expected; see SetKnown.
func (f *Facts) AreKnown() bool {
	select {
	case <-f.known:
		return true
	default:
		return false
	}
}

// AllPromised reports whether all announced tracks exist.
func (f *Facts) AllPromised() bool { return f.Promised&^f.Tracks.Load() == 0 }

// A Track describes the video or audio of a stream.
type Track struct {
	Codec flv.Codec
	Name  string // readable name, for example "h264 640x360"
}

// Is reports whether t is not nil and has the codec c.
func (t *Track) Is(c flv.Codec) bool { return t != nil && t.Codec == c }

// String returns the name of t, or "none".
func (t *Track) String() string {
	if t == nil {
		return "none"
	}
	return t.Name
}

// Describe stores the codec of the track to which the tag t belongs. The argument size is the size
// of the video, for example 640x360, or "" if the size is not known.
func (f *Facts) Describe(t flv.Tag, size string) {
	track := &Track{Codec: t.Codec, Name: strings.TrimSpace(codecName(t.Codec) + " " + size)}
	if t.Type == flv.TypeAudio {
		f.Audio.Store(track)
	} else {
		f.Video.Store(track)
	}
}

func codecName(c flv.Codec) string {
	switch c {
	case flv.AVC:
		return "h264"
	case flv.HEVC:
		return "h265"
	}
	return strings.ToLower(c.String())
}

// LeftOut returns the tracks that MP4 and HLS cannot carry: "video", "audio", "all", or "" if MP4
// and HLS can carry all tracks.
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

// NoMP4 reports whether the stream has no track that MP4 can carry, and will have none later.
func (f *Facts) NoMP4() bool { return f.Settled.Load() && f.LeftOut() == "all" }
