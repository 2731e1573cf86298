// Package frame reads and builds length-prefixed frames, for any protocol with the length of the
// payload in the header.
//
//	├── header ──┼────────────────── payload ──────────────────┤
//	│ HeaderSize │ as many bytes as Format.Parse says          │
//	     ↑ read first: a payload above the limit is refused before it arrives
//
// A [Format] describes a protocol with headers of one size in two methods, and a [VarFormat] one
// with headers that differ in size. Many are ready-made: [Uint16], [Uint32], [Varint], [MQTT],
// [Lines] and [RESPBulk]. A [Decoder] reads from a [millrace.Reader] and returns each frame in one
// of two forms:
//
//   - [Decoder.Next] appends it to a [millrace.Chain], by reference, to pass it on or share it.
//   - [Decoder.NextInto] puts it into an [arena.Buffer] and returns an [arena.Slice]. The frame is
//     then contiguous. The caller owns it, and may parse or change it on any goroutine.
//
// A Decoder does not trust the peer. It limits the size of payloads, also for each kind of frame.
// It allocates memory only as bytes arrive. With [Deadlines], it ends a stream that stalls inside a
// frame. An [Encoder] builds frames.
//
// A [Sealed] is a format with encrypted frames. The Decoder decrypts its chunks in place, and
// NextInto returns the plain frame. Package frame/sv2 has a plain and an encrypted format, for
// Stratum V2.
//
// The tests compare every way to read, from any kind of source, with a reference parser, for a
// plain and an encrypted format.
package frame
