// Package frame reads and builds length-prefixed frames, with the payload's length in the header.
//
//	├── header ──┼────────────────── payload ──────────────────┤
//	│ HeaderSize │ as many bytes as Format.Parse says          │
//	     ↑ read first: a payload above the limit is refused before it arrives
//
// A [Format] describes a protocol in which all headers have the same size, and a [VarFormat] one
// with headers that differ in size. Ready-made formats are [Uint16], [Uint32], [Varint], [MQTT],
// [Lines] and [RESPBulk]. A [Decoder] reads from a [millrace.Reader] and returns each frame in one
// of two forms:
//
//   - [Decoder.Next] appends the frame to a [millrace.Chain], by reference.
//   - [Decoder.NextInto] puts the frame into an [arena.Buffer] and returns a contiguous
//     [arena.Slice]. The caller owns it, and may parse or change it on any goroutine.
//
// A Decoder does not trust the peer. It limits the size of payloads, in all frames or in one kind
// of frame, and allocates memory only as bytes arrive. With [Deadlines], it ends a stream that
// stalls inside a frame.
//
// An [Encoder] builds frames. A [Sealed] is a format with encrypted frames, which NextInto decrypts
// in place. Package frame/sv2 has a plain and an encrypted format for Stratum V2.
//
// A quarter of the code is the ready-made formats, such as MQTT and RESP.
package frame
