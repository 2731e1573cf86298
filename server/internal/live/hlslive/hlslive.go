// Package hlslive makes the HLS of a live stream: playlists, segments and parts. A request for the
// next part waits until the part exists.
//
// A [Window] reads the fragments of the stream from a [Source], and adds them to an hls.Window:
//   - probe.go chooses the durations of segments and parts from the first fragments.
//   - clock.go assigns a date to each fragment.
//   - store.go saves complete segments to a [SegmentStore], where other nodes find them.
//
// In a cluster, only the node that owns the stream has a Window for it; see [Owner].
//
// A third of the code is for irregular encoders (probe.go, clock.go) and for the next owner of a
// stream (store.go).
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
	Part     time.Duration    // usual duration of a part
	Segment  time.Duration    // a segment ends at the first keyframe after this time
	Segments int              // number of segments in a playlist, if they have the recommended length
	MaxBytes int64            // limits the memory of a stream's segments
	Now      func() time.Time // the wall clock, for dates and sequence numbers; nil: time.Now
}

func (c *Config) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// Shared has the configuration, the store and the counters that all Windows of a server share.
type Shared struct {
	Config   *Config
	Store    SegmentStore   // nil if segments are only in this process
	Waiting  *limit.Limiter // limits the waiting requests
	Counters Counters
}

// Counters has the counters of playlists and objects.
type Counters struct {
	Rendered  atomic.Int64 // media playlists that were made
	Playlists atomic.Int64 // media playlists that were sent
	Objects   atomic.Int64 // segments, parts and init segments that were sent
	Bytes     atomic.Int64 // bytes of the objects that were sent
}

// The names of the playlists. In a URL path, the name of a playlist follows the name of the stream.
// The tracks of a playlist never change, because players cannot handle such a change. If the tracks
// of the stream change, the media playlist ends, and the multivariant playlist names another media
// playlist.
const (
	MasterName = "index.m3u8"
	MediaName  = "media.m3u8" // video and audio; may also be requested if there is one track
	VideoName  = "video.m3u8" // only video
	AudioName  = "audio.m3u8" // only audio
)

// IsMedia reports whether object is the name of a media playlist.
func IsMedia(object string) bool {
	return object == MediaName || object == VideoName || object == AudioName
}

func mediaName(m mp4.Movie) string {
	switch {
	case !m.Audio:
		return VideoName
	case !m.Video:
		return AudioName
	}
	return MediaName
}

// A Source is the stream from which a Window makes HLS. The goroutine that runs Window.Run calls
// the methods of the Source.
//
// AppendInit, KeyInterval and ExpectsKey may be called while the Window's mutex is held. They must
// not block, and must not call the Window.
type Source interface {
	// Next appends the next fragment to dst, which then owns it. It returns io.EOF at the end.
	Next(ctx context.Context, dst *millrace.Chain) (Fragment, error)
	// AppendInit appends a reference to the latest fragment's init segment to dst.
	AppendInit(dst *millrace.Chain)
	// KeyInterval returns the usual time between two keyframes, or 0 if it is unknown.
	KeyInterval() time.Duration
	// ExpectsKey reports whether the stream has had keyframes, and still has video.
	ExpectsKey() bool
	// Release releases the memory that the source holds.
	Release()
}

// A Fragment describes an MP4 fragment.
type Fragment struct {
	mp4.FragmentInfo
	Movie     *mp4.Movie // describes the init segment
	NewInit   bool       // the init segment has changed since the previous fragment
	KeyNext   bool       // the next fragment is known to begin with a keyframe
	Early     bool       // only audio, and the first video frame (a keyframe) has not arrived yet
	AfterLoss bool       // fragments before this one are missing
}

// An Owner represents this node's ownership of a stream. The methods are called while the mutex of
// the stream's Window is held.
type Owner interface {
	Epoch() uint64 // 0 if the epoch is not known yet
	Current() bool // false if another node may own the stream
}

// A SegmentStore keeps recent HLS segments, so that they outlive this node. Its methods may be
// called from any goroutine. The Save methods do not block. They save objects in the order of the
// calls, and may lose some.
type SegmentStore interface {
	// Save stores an init segment or a segment for a while. It takes ownership of body.
	Save(stream string, o hls.Object, body *millrace.Chain)

	// SaveState stores the state of a stream's playlist, unless the stored state has a later epoch.
	// epoch is that of the node's ownership of the stream.
	SaveState(stream string, epoch uint64, state []byte)

	// LoadState returns the state that was saved last, or nil.
	LoadState(ctx context.Context, stream string) ([]byte, error)
}

// ErrElsewhere means that another node owns the stream and serves its HLS.
var ErrElsewhere = errors.New("the stream is at another node")

var errTracksChanged = errors.New("the tracks of the stream changed")

// A SequenceStart has the smallest epoch, the smallest media sequence number and the smallest
// discontinuity sequence number that a window may use. Earlier windows of the same stream name have
// used smaller numbers.
type SequenceStart struct{ Epoch, MSN, Discontinuity uint64 }

// After returns the greater value of each field of n and m.
func (n SequenceStart) After(m SequenceStart) SequenceStart {
	return SequenceStart{max(n.Epoch, m.Epoch), max(n.MSN, m.MSN),
		max(n.Discontinuity, m.Discontinuity)}
}

// FirstMSN returns the media sequence number of the first segment of a window that begins now. The
// number grows by one in each period of c.Segment. A window seldom adds segments faster than that,
// so its numbers seldom reach the first number of a later window.
func (c *Config) FirstMSN() uint64 { return c.firstMSN(c.now()) }

func (c *Config) firstMSN(t time.Time) uint64 {
	return uint64(t.Unix() / int64(max(1, c.Segment/time.Second)))
}

var start = time.Now()

// nanotime returns the monotonic time since start, in nanoseconds.
func nanotime() int64 { return int64(time.Since(start)) }
