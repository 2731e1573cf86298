// Package frame reads and builds length-prefixed frames, for any protocol whose header has a fixed
// size and states the length of the payload.
//
//	├── header ──┼────────────────── payload ──────────────────┤
//	│ HeaderSize │ as many bytes as Format.Parse says          │
//	     ↑ read first: a payload above the limit is refused before it arrives
//
// A [Format] describes the protocol in two methods. A [Decoder] reads from a [millrace.Reader] and
// returns each frame in one of two forms:
//
//   - [Decoder.Next] appends it to a [millrace.Chain], by reference, to pass it on or share it.
//   - [Decoder.NextInto] puts it into an [arena.Buffer] and returns an [arena.Slice]. The frame is
//     then contiguous. The caller owns it, and may parse or change it on any goroutine.
//
// A Decoder does not trust the peer. It limits payloads, for each kind of frame if necessary. It
// allocates memory only as bytes arrive. With [Deadlines], it ends a stream that stalls inside a
// frame. An [Encoder] builds frames.
//
// A format with encrypted frames is a [Sealed]. The Decoder decrypts its chunks in place, and
// NextInto returns one plain frame. frame/sv2 has both kinds, for Stratum V2.
//
// The tests are larger than the code. For a plain and for a sealed format, they compare every way
// to read, from any source, with a reference parser.
package frame
