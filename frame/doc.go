// Package frame cuts a stream into length-prefixed frames, and builds them, for any protocol whose frames begin with a
// header of one size that says how long the payload is.
//
//	├── header ──┼────────────────── payload ──────────────────┤
//	│ HeaderSize │ as many bytes as Format.Parse says          │
//	     ↑ looked at first: a payload above the limit is refused before a byte of it is waited for
//
// A [Format] describes the protocol in two methods. A [Decoder] stands over a [millrace.Reader] and gives each frame whole,
// in the form that suits its future:
//
//   - [Decoder.Next] appends it to a [millrace.Chain], by reference: for frames that are passed on, or shared.
//   - [Decoder.NextInto] puts it into an [arena.Buffer] and gives an [arena.Slice]: contiguous, owned, to be parsed or
//     changed, on any goroutine.
//
// Nothing is taken on a peer's word: payloads have limits, by kind if need be; memory is granted as bytes arrive; and
// [Deadlines] ends a stream that stalls inside a frame. An [Encoder] is the way back.
//
// A format whose frames come encrypted is a [Sealed]: its chunks are opened where they lie, and what NextInto gives is one
// plain frame. frame/sv2 has both kinds, for Stratum V2.
package frame
