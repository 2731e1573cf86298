// Package hlslive makes the HLS of a live stream: playlists, segments and parts, for requests that
// may wait for the next part.
//
// A [Window] adds the fragments of a [Source] to an hls.Window while players ask for it. It chooses
// the durations of segments and parts from the first fragments (probe.go), dates the fragments
// (clock.go), and saves complete segments to a [SegmentStore], where other nodes find them
// (store.go). In a cluster, only the node that owns the stream has a Window of it ([Owner]).
package hlslive

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/conn/limit"
)

// Config configures HLS.
type Config struct {
	Part     time.Duration // the usual duration of a part
	Segment  time.Duration // a segment ends at the first keyframe from here on
	Segments int           // how many a playlist lists, if they are as long as the rules ask
	MaxBytes int64         // limits the memory of a stream's segments
}

// Shared is the state that all windows of a server share.
type Shared struct {
	Config   *Config
	Store    SegmentStore   // nil: segments are in this process only
	Waiting  *limit.Limiter // a request that waits acquires one
	Counters Counters
}

// Counters count playlists and objects.
type Counters struct {
	Rendered  atomic.Int64 // media playlists that were made
	Playlists atomic.Int64 // media playlists that were sent
	Objects   atomic.Int64 // segments, parts and init segments that were sent
	Bytes     atomic.Int64 // of objects
}

// The names of the playlists, after the stream's name. The tracks of a playlist never change,
// because players cannot follow: the playlist ends, and the multivariant playlist names another
// one.
const (
	MasterName = "index.m3u8"
	MediaName  = "media.m3u8" // video and audio; players may also ask for it if there is one track
	VideoName  = "video.m3u8" // video alone
	AudioName  = "audio.m3u8" // audio alone
)

// IsMedia reports whether an object of that name is a media playlist.
func IsMedia(object string) bool {
	return object == MediaName || object == VideoName || object == AudioName
}

// mediaName returns the name of the playlist of a movie.
func mediaName(m mp4.Movie) string {
	switch {
	case !m.Audio:
		return VideoName
	case !m.Video:
		return AudioName
	}
	return MediaName
}

// A Source is the stream of a Window. The window's goroutine calls its methods, all but Next and
// Release with the window's lock held: they must not block, nor call the window.
type Source interface {
	// Next appends the next fragment to dst, which owns it. It returns io.EOF at the end of the
	// stream.
	Next(ctx context.Context, dst *millrace.Chain) (Fragment, error)
	// AppendInit appends a reference to the init segment of the latest fragment to dst.
	AppendInit(dst *millrace.Chain)
	// KeyInterval returns the usual distance of keyframes, or 0 if it is unknown.
	KeyInterval() time.Duration
	// ExpectsKey reports whether the stream has had keyframes, and still has video.
	ExpectsKey() bool
	// Release releases the memory that the source holds.
	Release()
}

// A Fragment describes a fragment of MP4.
type Fragment struct {
	mp4.FragmentInfo
	Movie     *mp4.Movie // of the init segment
	NewInit   bool       // the init segment differs from that of the fragment before
	KeyNext   bool       // the next fragment is known to begin with a keyframe
	Early     bool       // it is audio before the first video frame, which is a keyframe
	AfterLoss bool       // fragments before this one are missing
}

// An Owner is a node's ownership of a stream. Its methods are called with the window's lock held.
type Owner interface {
	Epoch() uint64 // 0: unknown yet
	Current() bool // false: another node may own the stream
}

// A SegmentStore keeps recent HLS segments, so that they outlive this node. Its methods may be
// called from any goroutine. The Save methods do not block; saves happen in order, or are lost.
type SegmentStore interface {
	// Save keeps an init segment or a segment of a stream for a while. It takes ownership of body.
	Save(stream string, o hls.Object, body *millrace.Chain)

	// SaveState keeps the state of a stream's playlist. It replaces the state of the same or an
	// earlier epoch of HLS.
	SaveState(stream string, epoch uint64, state []byte)

	// LoadState returns the last saved state, or nil.
	LoadState(ctx context.Context, stream string) ([]byte, error)
}

// ErrElsewhere means that this node has no HLS of a stream because it does not own it.
var ErrElsewhere = errors.New("the stream is at another node")

// errTracksChanged ends a window when the tracks of its stream change.
var errTracksChanged = errors.New("the tracks of the stream changed")

// A SequenceStart has the first numbers that a window may use: earlier windows of the same name
// have used the numbers before them.
type SequenceStart struct{ Epoch, MSN, Discontinuity uint64 }

// After returns numbers that follow both n and m.
func (n SequenceStart) After(m SequenceStart) SequenceStart {
	return SequenceStart{max(n.Epoch, m.Epoch), max(n.MSN, m.MSN),
		max(n.Discontinuity, m.Discontinuity)}
}

// FirstMSN returns the number of the first segment of a window that begins at a time. It grows by
// one for each Segment of wall time, and segments last at least about as long: so it usually
// exceeds all numbers of earlier windows of the name.
func (c *Config) FirstMSN(at time.Time) uint64 {
	return uint64(at.Unix() / int64(max(1, c.Segment/time.Second)))
}

// start is the origin of now.
var start = time.Now()

// now returns the monotonic time in nanoseconds.
func now() int64 { return int64(time.Since(start)) }
