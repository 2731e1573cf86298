package broadcast

import (
	"fmt"
	"time"
)

const (
	// defaultMaxBytes holds a GOP of ten seconds at 13 Mbit/s.
	defaultMaxBytes = 16 << 20
	// defaultMaxFrames leaves the limit to MaxBytes for real streams. A GOP of a still image is
	// long: x264 makes every 250th frame a keyframe by default, and at one video frame a second
	// those 250 seconds have 12,000 audio frames, in 4 MB.
	defaultMaxFrames = 16384
	// pieceBytes makes room for one piece per this many bytes: less than a Reader puts into a
	// block, unless each frame arrives alone.
	pieceBytes = 1 << 10
	// maxBytePieces bounds that room to 12 MiB, for a MaxBytes that is meant as no limit at all.
	maxBytePieces = 1 << 18

	// maxRoom bounds MaxFrames to 640 MiB of records and 740 MiB of pieces.
	maxRoom = 1 << 24

	// defaultLagTime is more than a lost segment, a Wi-Fi roam or a short congestion costs, and
	// several groups of a usual stream (2 to 4 seconds). A viewer further behind is better served
	// by the present.
	defaultLagTime = 10 * time.Second

	// defaultBatchBytes is about what a socket buffer takes at a time; larger batches would only
	// wait in user space.
	defaultBatchBytes = 256 << 10
	// defaultBatchPieces is far below the limit of one writev (1024 on Linux and macOS), and at 4
	// KiB per piece fills defaultBatchBytes.
	defaultBatchPieces = 64
)

// An Option changes a limit of a Ring. Options panic when a value is out of range.
type Option func(*options)

type options struct {
	maxBytes  int64
	maxFrames int
	maxPieces int
	latency   time.Duration
}

// MaxBytes limits the bytes of the frames that the ring keeps; the default is 16 MiB, a GOP of ten
// seconds at 13 Mbit/s. It counts the frames' bytes, even if the ring keeps a larger block for
// them, and does not count preambles.
func MaxBytes(n int64) Option {
	atLeast("MaxBytes", n, 1)
	return func(o *options) { o.maxBytes = n }
}

// MaxFrames bounds the number of frames that the ring keeps; the default is 16384, and the most is
// 1 << 24.
//
// It also bounds, with MaxBytes, the contiguous pieces of memory (see [millrace.Chain.Pieces]) that
// the frames lie in: one for each frame, or one for each KiB of MaxBytes up to 256 MiB if those are
// more. Frames that follow each other in one block are one piece, as a rule.
//
// A kept frame costs a record of 40 bytes, another 16 in a ring whose frames have an Info, and a
// piece 46 bytes: up to 1.4 MB by default. The memory for them doubles as more frames are kept, and
// stays until the ring ends.
func MaxFrames(n int) Option {
	atLeast("MaxFrames", int64(n), 1)
	atMost("MaxFrames", int64(n), maxRoom)
	return func(o *options) { o.maxFrames = n }
}

// Latency is how long a published frame may wait before watchers are signalled, once for all frames
// that came meanwhile. The default, 0, signals them in every Publish. A publisher that knows that
// no more will come calls [Ring.Flush]. Frames that come within the bound are taken together, so
// that they leave in one write.
func Latency(d time.Duration) Option {
	atLeast("Latency", int64(d), 0)
	return func(o *options) { o.latency = d }
}

// A CursorOption changes where a Cursor starts or a limit of it. Options panic when a value is out
// of range.
type CursorOption func(*cursorOptions)

// A beginning is where a cursor starts.
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

// FromHead starts the cursor with the next frame to be published, keyframe or not, after the
// preamble that is current now. Without it a cursor starts at the newest keyframe, or at the next
// one if the ring holds none.
func FromHead() CursorOption {
	return func(o *cursorOptions) { o.from = fromHead }
}

// FromNextKey starts the cursor with the next keyframe to be published, also if the ring holds one.
// Such a cursor starts with no lag. If FromHead is given as well, the last one wins.
func FromNextKey() CursorOption {
	return func(o *cursorOptions) { o.from = fromNextKey }
}

// MaxLagBytes is the cursor's allowance in bytes; 0 is no limit. The default is half of the ring's
// MaxBytes: a slow reader is then moved to the start of a GOP for its own lag, before the ring must
// evict frames that it still reads.
func MaxLagBytes(n int64) CursorOption {
	atLeast("MaxLagBytes", n, 0)
	return func(o *cursorOptions) { o.lagBytes = n }
}

// MaxLagFrames is the cursor's allowance in frames; 0 is no limit. The default is half of the
// ring's MaxFrames, for MaxLagBytes' reason.
func MaxLagFrames(n int) CursorOption {
	atLeast("MaxLagFrames", int64(n), 0)
	return func(o *cursorOptions) { o.lagFrames = n }
}

// MaxLagTime is the cursor's allowance in time since the publication of the first frame that it has
// not taken; 0 is no limit. The default is 10 seconds.
func MaxLagTime(d time.Duration) CursorOption {
	atLeast("MaxLagTime", int64(d), 0)
	return func(o *cursorOptions) { o.lagTime = d }
}

// BatchBytes bounds the frames' bytes that one Take gives; the default is 256 KiB. A larger frame
// comes alone, and a preamble is not counted. A batch also ends at 64 pieces of memory.
func BatchBytes(n int) CursorOption {
	atLeast("BatchBytes", int64(n), 1)
	return func(o *cursorOptions) { o.batchBytes = int64(n) }
}

// BatchFrames bounds the frames that one Take gives. There is no limit by default.
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
