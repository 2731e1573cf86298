package frame

// Header is the information in a frame's header that a Decoder needs and an Encoder writes.
type Header struct {
	Payload int    // bytes after the header; an Encoder fills it in
	Kind    uint32 // the protocol's message type, which selects a MaxKind limit
	Info    uint64 // other information from the header, for the Format's user
}

// A Format describes the headers of a protocol's frames. A Format with state belongs to one Decoder
// or Encoder.
type Format interface {
	// HeaderSize returns the size of every header in bytes: at least 1, at most the Size of the
	// Reader.
	HeaderSize() int
	// Parse parses a header. It borrows header, which has HeaderSize bytes. Payload must not be
	// negative. An error ends the stream and is returned unchanged.
	Parse(header []byte) (Header, error)
}

// An Encoding is a Format that can also write headers.
type Encoding interface {
	Format
	// AppendHeader appends the HeaderSize bytes of h to dst and returns the longer slice. It
	// borrows dst. It returns an error if the protocol cannot express h.
	AppendHeader(dst []byte, h Header) ([]byte, error)
}

// A Sealed is a Format with encrypted frames. The header comes first, and the payload follows in
// chunks. HeaderSize is the size of the encrypted header. Parse decrypts the header and is called
// once for each frame. The Payload that it returns counts bytes of plain text.
//
// A Sealed belongs to one Decoder, because its state follows the stream.
type Sealed interface {
	Format
	// PlainHeader returns the header that Parse decrypted last. It is valid until the next Parse.
	// The Decoder puts it before the payload.
	PlainHeader() []byte
	// ChunkSize returns the size of the next encrypted chunk in bytes. rest is the number of bytes
	// of plain text that are still missing from the payload, at least 1.
	ChunkSize(rest int) int
	// Open decrypts chunk in place and returns the plain text, which begins where chunk begins. The
	// plain text has at least 1 byte, and at most the rest of the payload. Open borrows chunk. An
	// error ends the stream and is returned unchanged.
	Open(chunk []byte) ([]byte, error)
}
