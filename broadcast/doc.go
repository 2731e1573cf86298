// Package broadcast distributes one stream of frames to any number of readers. It makes no copies,
// has no queue per reader, and does not wait for slow readers.
//
//	   evicted       kept: MaxBytes, MaxFrames              to come
//	. . . . . . ┌────┬────┬────┬────┬────┬────┬────┬────┐ . . . . . .
//	            │ K  │    │    │    │ K  │    │    │    │
//	. . . . . . └────┴────┴────┴────┴────┴────┴────┴────┘ . . . . . .
//	               ▲              ▲   ▲                 ▲
//	             cursor        cursor │               head: Publish
//	             (behind)             a late joiner
//	                                  starts here
//
// A [Ring] keeps the newest frames of a stream as one log of bytes, shared by reference. Its
// publisher appends to the log with [Ring.Publish]. Each reader is a [Cursor], a position in the
// log. A Cursor takes the frames between itself and the head in batches. A reader may start at a
// keyframe (K). The data that it needs before that (metadata, sequence headers) is the stream's
// preamble, set with [Ring.SetPreamble]. If the frames of a stream are independent of each other,
// the publisher marks every frame as a keyframe.
//
// A reader that falls behind by more than its allowance moves forward to the newest keyframe. It
// learns how much it missed and why (see [Missed]). After a move, it always gets a keyframe first,
// and never a GOP without its keyframe.
//
// Ownership: Publish and SetPreamble take ownership of their chains, even when they return an
// error. [Cursor.Take] adds shares to a chain that the caller owns. The shares live until the
// caller releases them, even after the ring has dropped the frames. A send holds its references
// until the kernel has taken the bytes.
//
// The package is large for its few calls because it handles every case of a late, evicted or
// refused reader, in cursor.go and ring.go.
package broadcast
