// Package frame reads and builds length-prefixed frames, for any protocol with the length of the
// payload in the header.
//
//	├── header ──┼────────────────── payload ──────────────────┤
//	│ HeaderSize │ as many bytes as Format.Parse says          │
//	     ↑ read first: a payload above the limit is refused before it arrives
//
// A [Format] describes a protocol in which all headers have the same size. A [VarFormat] describes
// a protocol with headers that differ in size. The package has ready-made formats: [Uint16],
// [Uint32], [Varint], [MQTT], [Lines] and [RESPBulk]. A [Decoder] reads from a [millrace.Reader]
// and returns each frame in one of two forms:
//
//   - [Decoder.Next] appends the frame to a [millrace.Chain], by reference. The Chain can be passed
//     on or shared.
//   - [Decoder.NextInto] puts the frame into an [arena.Buffer] and returns an [arena.Slice]. The
//     frame is then contiguous. The caller owns it, and may parse or change it on any goroutine.
//
// A Decoder does not trust the peer. It limits the size of payloads, in all frames or in one kind
// of frame. It allocates memory only as bytes arrive. With [Deadlines], it ends a stream that
// stalls inside a frame.
//
// An [Encoder] builds frames. A [Sealed] is a format with encrypted frames. NextInto decrypts the
// chunks of a frame in place, and returns the decrypted frame. Package frame/sv2 has a plain and an
// encrypted format for Stratum V2.
//
// The tests compare each method of the Decoder with a reference parser, on every kind of source,
// with a plain and an encrypted format.
package frame
