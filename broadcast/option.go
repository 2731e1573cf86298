package broadcast

import (
	"fmt"
	"time"
)

const (
	// defaultMaxBytes has room for ten seconds of video at 13 Mbit/s.
	defaultMaxBytes = 16 << 20
	// defaultMaxFrames is larger than the usual number of frames from one keyframe to the next.
	// Most streams reach MaxBytes first.
	defaultMaxFrames = 16384
	// The option MaxBytes allows MaxBytes/pieceBytes contiguous pieces of memory in the ring.
	// Usually the pieces are larger than pieceBytes.
	pieceBytes = 1 << 10
	// maxBytePieces is the maximum number of pieces that MaxBytes allows. It keeps the list of
	// pieces below 12 MiB.
	maxBytePieces = 1 << 18

	// maxRoom is the maximum value of MaxFrames. At this value, the ring's records need 640 MiB and
	// its list of pieces needs 740 MiB.
	maxRoom = 1 << 24

	// defaultLagTime is longer than a short network problem, such as a change of the Wi-Fi access
	// point, and longer than several GOPs of a usual stream (2 to 4 seconds each).
	defaultLagTime = 10 * time.Second

	// defaultBatchBytes is about as much as a socket buffer takes at a time.
	defaultBatchBytes = 256 << 10
	// defaultBatchPieces is the maximum number of pieces of memory in a batch. A batch of
	// defaultBatchBytes has more pieces only if they are shorter than 4 KiB on average.
	defaultBatchPieces = 64
)

// An Option changes a limit of a Ring. An option panics if its value is out of range.
type Option func(*options)

type options struct {
	maxBytes  int64
	maxFrames int
	maxPieces int
	latency   time.Duration
}

// MaxBytes limits the total length of the frames that the ring keeps. The default is 16 MiB, which
// is ten seconds of video at 13 Mbit/s.
//
// Only the bytes of the frames count, and not the unused rest of the memory blocks that contain
// them. Preambles (see [Ring.SetPreamble]) do not count.
func MaxBytes(n int64) Option {
	atLeast("MaxBytes", n, 1)
	return func(o *options) { o.maxBytes = n }
}

// MaxFrames limits the number of kept frames. The default is 16384, and the maximum is 1 << 24.
//
// The ring also limits the contiguous pieces of memory (see [millrace.Chain.Pieces]) to MaxFrames
// or min(MaxBytes/1024, 262144), whichever is larger.
//
// The records need 40 bytes per frame, 16 bytes more if frames have a Frame.Info, and 46 bytes per
// piece: up to 1.4 MB by default. They grow by doubling, and never shrink.
func MaxFrames(n int) Option {
	atLeast("MaxFrames", int64(n), 1)
	atMost("MaxFrames", int64(n), maxRoom)
	return func(o *options) { o.maxFrames = n }
}

// Latency sets the longest time between the publication of a frame and the signal to the ring's
// watchers. Frames that are published within that time share one signal, so that a reader can send
// them with one write. The default is 0: every Publish signals the watchers. A publisher that has
// no more frames for now calls [Ring.Flush].
func Latency(d time.Duration) Option {
	atLeast("Latency", int64(d), 0)
	return func(o *options) { o.latency = d }
}

// A CursorOption changes where a Cursor starts, or one of its limits. An option panics if its value
// is out of range.
type CursorOption func(*cursorOptions)

type beginning uint8

const (
	fromKey beginning = iota // the newest keyframe, or the next one
	fromHead
	fromNextKey
)

type cursorOptions struct {
	from        beginning
	lagBytes    int64
	lagFrames   int
	lagTime     time.Duration
	batchBytes  int64
	batchFrames int64
	batchPieces int
}

// FromHead starts the cursor at the next frame that is published, even if it is not a keyframe. The
// first batch begins with the preamble that the ring had when [Ring.Cursor] was called (see
// [Ring.SetPreamble]). Without FromHead, a cursor starts at the newest keyframe.
func FromHead() CursorOption {
	return func(o *cursorOptions) { o.from = fromHead }
}

// FromNextKey starts the cursor at the next keyframe that is published, even if the ring already
// has a keyframe. The cursor starts without lag. Of the options FromHead and FromNextKey, the last
// one applies.
func FromNextKey() CursorOption {
	return func(o *cursorOptions) { o.from = fromNextKey }
}

// MaxLagBytes limits the lag of a cursor to n bytes. If n is 0, there is no limit. A cursor that
// exceeds the limit moves to the newest keyframe (see [Cursor]). The default is half of the ring's
// MaxBytes, so that a slow reader moves to a keyframe before the ring evicts the reader's next
// frames.
func MaxLagBytes(n int64) CursorOption {
	atLeast("MaxLagBytes", n, 0)
	return func(o *cursorOptions) { o.lagBytes = n }
}

// MaxLagFrames limits the lag of a cursor to n frames. If n is 0, there is no limit. A cursor that
// exceeds the limit moves to the newest keyframe (see [Cursor]). The default is half of the ring's
// MaxFrames, so that a slow reader moves to a keyframe before the ring evicts the reader's next
// frames.
func MaxLagFrames(n int) CursorOption {
	atLeast("MaxLagFrames", int64(n), 0)
	return func(o *cursorOptions) { o.lagFrames = n }
}

// MaxLagTime limits the lag of a cursor to the duration d. If d is 0, there is no limit. The lag is
// the time since the publication of the first frame that the cursor has not taken. A cursor that
// exceeds the limit moves to the newest keyframe (see [Cursor]). The default is 10 seconds.
func MaxLagTime(d time.Duration) CursorOption {
	atLeast("MaxLagTime", int64(d), 0)
	return func(o *cursorOptions) { o.lagTime = d }
}

// BatchBytes limits the total length of the frames in one batch. The default is 256 KiB. If one
// frame is longer, the batch contains only that frame. The preamble (see [Ring.SetPreamble]) does
// not count.
//
// A batch also has at most 64 contiguous pieces of memory (see [millrace.Chain.Pieces]), unless its
// first frame alone has more.
func BatchBytes(n int) CursorOption {
	atLeast("BatchBytes", int64(n), 1)
	return func(o *cursorOptions) { o.batchBytes = int64(n) }
}

// BatchFrames limits the number of frames in one batch. There is no limit by default.
func BatchFrames(n int) CursorOption {
	atLeast("BatchFrames", int64(n), 1)
	return func(o *cursorOptions) { o.batchFrames = int64(n) }
}

func atLeast(name string, n, least int64) {
	if n < least {
		panic(fmt.Sprintf("broadcast: %s(%d) is below %d", name, n, least))
	}
}

func atMost(name string, n, most int64) {
	if n > most {
		panic(fmt.Sprintf("broadcast: %s(%d) is above %d", name, n, most))
	}
}
