package frame

// Header is what a Decoder has to know about a frame and an Encoder is told. It is a value.
type Header struct {
	Payload int    // bytes behind the header; an Encoder fills it in
	Kind    uint32 // the protocol's message type; MaxKind limits are looked up by it
	Info    uint64 // what else the Format has found in the header; it is handed on as it is
}

// A Format says how the frames of a protocol begin. It belongs to one Decoder or Encoder, unless it has no state.
type Format interface {
	// HeaderSize returns the size of every header in bytes: at least 1, at most the Size of the Reader.
	HeaderSize() int
	// Parse reads a header. It borrows header, which has HeaderSize bytes. Payload must not be negative. An error ends
	// the stream and is returned as it is.
	Parse(header []byte) (Header, error)
}

// An Encoding is a Format that can be written as well.
type Encoding interface {
	Format
	// AppendHeader appends HeaderSize bytes to dst, which say what h does, and returns the longer slice. It borrows dst.
	// The error says what the protocol has no way to say.
	AppendHeader(dst []byte, h Header) ([]byte, error)
}

// A Sealed is a Format whose frames come encrypted: the header by itself, the payload in chunks. HeaderSize is that of the
// header as it comes, and Parse, which is called once for each frame, opens it; Payload counts the bytes of plain text.
//
// A Sealed belongs to one Decoder, whose stream gives it its state.
type Sealed interface {
	Format
	// PlainHeader returns the header that Parse opened last. It goes in front of the payload, and is valid until the
	// next Parse.
	PlainHeader() []byte
	// ChunkSize returns the size of the next chunk as it comes, in bytes, when the payload still lacks rest bytes, at
	// least 1.
	ChunkSize(rest int) int
	// Open decrypts chunk, which it borrows, in place and returns the plain text, which begins where chunk does and is
	// chunk's memory: at least 1 byte, at most what the payload lacks. An error ends the stream and is returned as it is.
	Open(chunk []byte) ([]byte, error)
}
