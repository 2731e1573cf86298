// Package flv cuts a Flash Video stream into tags, and builds tags, without copying what they carry.
//
// A [Decoder] stands over a [millrace.Reader]. Each call of [Decoder.Next] appends one whole tag to a chain, byte for
// byte as it came and by reference. It tells in a small [Tag] what a relay has to know about it: whether a viewer can
// start there, whether it is a header that later tags need, and when it is due.
//
//	0        1          4          7     8          11                11+Size     11+Size+4
//	├─ type ─┼── size ──┼─── ts ───┼ ts+ ┼─ stream ─┼───── data ──────┼─ previous ─┤
//	│  8,9,  │ of data, │ low 24   │ top │ 0 in a   │ codec's header, │  tag size: │
//	│  18    │ 24 bits  │ bits, ms │  8  │ file     │ then its bytes  │  11 + Size │
//	└────────┴──────────┴──────────┴─────┴──────────┴─────────────────┴────────────┘
//	├─────────────── 11-byte header ────────────────┤  ↑ Tag.Payload: where the codec's bytes begin
//
// Headers are small and are read; data is referenced and never read past its first few bytes.
//
// The Decoder is not one of package frame's, because what follows a tag has to be checked as well, and frame.Deadlines
// has no say in it. A tag that stalls is waited for until the source gives up: set the read deadline of the connection
// before each call of Next, and it bounds how long the tag may take, including the pause in front of it. The error is
// the connection's, and nothing is lost: whether to end the stream or to call Next again is the caller's choice.
package flv
