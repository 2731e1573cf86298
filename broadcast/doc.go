// Package broadcast distributes one stream of frames to any number of readers. It copies nothing,
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
// A [Ring] keeps the newest frames of a stream as one log of bytes, shared by reference. The
// publisher appends to the log with [Ring.Publish]. Each reader has a [Cursor], a position in the
// log, and takes the frames between the cursor and the head in batches. A reader may start at a
// keyframe (K). The data that it needs before the keyframe is the stream's preamble, set with
// [Ring.SetPreamble]. If the frames are independent of each other, every frame is a keyframe.
//
// A reader that is behind by more than its allowance moves forward to the newest keyframe. Its next
// batch says how much the reader missed and why (see [Missed]). A reader never gets part of a GOP
// (a keyframe and the frames up to the next one) without the keyframe.
//
// Publish and SetPreamble take ownership of their chains, even when they return an error.
// [Cursor.Take] appends frames to a chain that the caller owns. The frames stay valid until the
// caller releases them, even after the ring has dropped them.
package broadcast
