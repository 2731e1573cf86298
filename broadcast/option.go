package broadcast

import (
	"fmt"
	"time"
)

const (
	// defaultMaxBytes has room for a GOP of ten seconds at 13 Mbit/s.
	defaultMaxBytes = 16 << 20
	// defaultMaxFrames is so large that real streams reach MaxBytes first. The GOP of a still image
	// is long, because x264 makes every 250th frame a keyframe by default. At one video frame a
	// second, those 250 seconds have 12,000 audio frames, in 4 MB.
	defaultMaxFrames = 16384
	// pieceBytes is how many bytes of MaxBytes give room for one piece. A Reader puts more than
	// that into a block, unless each frame arrives alone.
	pieceBytes = 1 << 10
	// maxBytePieces limits the room for pieces that MaxBytes gives to 12 MiB. The limit is for
	// programs that set MaxBytes so high that it is no limit.
	maxBytePieces = 1 << 18

	// maxRoom is the maximum of MaxFrames: 640 MiB of records and 740 MiB of pieces.
	maxRoom = 1 << 24

	// defaultLagTime is longer than the delay of a lost segment, a Wi-Fi roam or a short
	// congestion. It is also longer than several GOPs of a usual stream (2 to 4 seconds each). A
	// viewer who is further behind is better served by the newest frames.
	defaultLagTime = 10 * time.Second

	// defaultBatchBytes is about as much as a socket buffer takes at a time. The rest of a larger
	// batch would only wait in user space.
	defaultBatchBytes = 256 << 10
	// defaultBatchPieces is far below the limit of one writev (1024 on Linux and macOS). Pieces of
	// 4 KiB each fill defaultBatchBytes with it.
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

// MaxBytes limits the bytes of the frames that the ring keeps. The default is 16 MiB, a GOP of ten
// seconds at 13 Mbit/s. Only the frames' own bytes count, even if they keep a larger block in
// memory. Preambles do not count.
func MaxBytes(n int64) Option {
	atLeast("MaxBytes", n, 1)
	return func(o *options) { o.maxBytes = n }
}

// MaxFrames limits the number of frames that the ring keeps. The default is 16384, and the maximum
// is 1 << 24.
//
// MaxFrames and MaxBytes together also limit the contiguous pieces of memory (see
// [millrace.Chain.Pieces]) that the frames lie in. There may be as many pieces as MaxFrames says,
// or one piece for each KiB of MaxBytes (of at most 256 MiB), whichever is more. Frames that follow
// each other in one block usually form one piece.
//
// A kept frame costs a record of 40 bytes, and another 16 bytes in a ring whose frames have an
// Info. A piece costs 46 bytes. Together that is up to 1.4 MB with the default limits. The memory
// for records and pieces doubles as more frames are kept, and stays allocated until the ring ends.
func MaxFrames(n int) Option {
	atLeast("MaxFrames", int64(n), 1)
	atMost("MaxFrames", int64(n), maxRoom)
	return func(o *options) { o.maxFrames = n }
}

// Latency is the longest time that a published frame may wait before the ring signals its watchers.
// All frames that were published meanwhile share that one signal, so that a reader takes them
// together and sends them in one write. The default, 0, signals the watchers in every Publish. A
// publisher that has no more frames for now calls [Ring.Flush].
func Latency(d time.Duration) Option {
	atLeast("Latency", int64(d), 0)
	return func(o *options) { o.latency = d }
}

// A CursorOption changes the start of a Cursor or one of its limits. An option panics if its value
// is out of range.
type CursorOption func(*cursorOptions)

// A beginning is the kind of place where a cursor starts.
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

// FromNextKey starts the cursor with the next keyframe to be published, even if the ring holds one.
// Such a cursor starts with no lag. If both FromHead and FromNextKey are given, the last one
// applies.
func FromNextKey() CursorOption {
	return func(o *cursorOptions) { o.from = fromNextKey }
}

// MaxLagBytes is the cursor's allowance in bytes; 0 is no limit. The default is half of the ring's
// MaxBytes. With it, a slow reader moves to the start of a GOP because of its own lag, before the
// ring must evict frames that the reader still needs.
func MaxLagBytes(n int64) CursorOption {
	atLeast("MaxLagBytes", n, 0)
	return func(o *cursorOptions) { o.lagBytes = n }
}

// MaxLagFrames is the cursor's allowance in frames; 0 is no limit. The default is half of the
// ring's MaxFrames, for the same reason as with MaxLagBytes.
func MaxLagFrames(n int) CursorOption {
	atLeast("MaxLagFrames", int64(n), 0)
	return func(o *cursorOptions) { o.lagFrames = n }
}

// MaxLagTime is the cursor's allowance in time; 0 is no limit. The time counts from the publication
// of the first frame that the cursor has not taken. The default is 10 seconds.
func MaxLagTime(d time.Duration) CursorOption {
	atLeast("MaxLagTime", int64(d), 0)
	return func(o *cursorOptions) { o.lagTime = d }
}

// BatchBytes limits the bytes of frames that one Take gives. The default is 256 KiB. A larger frame
// is given alone, and a preamble is not counted. A batch also ends at 64 pieces of memory.
func BatchBytes(n int) CursorOption {
	atLeast("BatchBytes", int64(n), 1)
	return func(o *cursorOptions) { o.batchBytes = int64(n) }
}

// BatchFrames limits the number of frames that one Take gives. There is no limit by default.
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
