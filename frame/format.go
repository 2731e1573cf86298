package frame

// Header is the part of a frame's header that a Decoder needs, and that an Encoder writes.
type Header struct {
	Payload int    // bytes behind the header; an Encoder fills it in
	Kind    uint32 // the protocol's message type; MaxKind limits are looked up by it
	Info    uint64 // other information from the header, for the Format's user
}

// A Format describes how the frames of a protocol begin. A Format with state belongs to one Decoder
// or Encoder.
type Format interface {
	// HeaderSize returns the size of every header in bytes: at least 1, at most the Size of the
	// Reader.
	HeaderSize() int
	// Parse parses a header. It borrows header, which has HeaderSize bytes. Payload must not be
	// negative. An error ends the stream and is returned unchanged.
	Parse(header []byte) (Header, error)
}

// An Encoding is a Format that can be written as well.
type Encoding interface {
	Format
	// AppendHeader appends the HeaderSize bytes of h to dst and returns the longer slice. It
	// borrows dst. It returns an error if the protocol cannot express h.
	AppendHeader(dst []byte, h Header) ([]byte, error)
}

// A Sealed is a Format with encrypted frames: first the header, then the payload in chunks.
// HeaderSize is the size of the encrypted header. Parse, which is called once for each frame,
// decrypts it; Payload counts bytes of plain text.
//
// A Sealed belongs to one Decoder, because its state follows the stream.
type Sealed interface {
	Format
	// PlainHeader returns the header that Parse decrypted last, valid until the next Parse. It goes
	// in front of the payload.
	PlainHeader() []byte
	// ChunkSize returns the size of the next encrypted chunk in bytes. rest, at least 1, is how
	// many bytes of plain text the payload still lacks.
	ChunkSize(rest int) int
	// Open decrypts chunk in place and returns the plain text, which begins where chunk begins: at
	// least 1 byte, and at most the rest of the payload. It borrows chunk. An error ends the stream
	// and is returned unchanged.
	Open(chunk []byte) ([]byte, error)
}
