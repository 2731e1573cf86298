package frame

// Header is the information in a frame's header that a Decoder needs and an Encoder writes.
type Header struct {
	Payload int    // size of the payload; an Encoder fills it in
	Kind    uint32 // the protocol's message type, which selects a MaxKind limit
	Info    uint64 // other information that the Format has found in the header
}

// A Format parses the headers of a protocol's frames. A Format with state belongs to one Decoder or
// Encoder.
type Format interface {
	// HeaderSize returns the size of every header in bytes: at least 1, at most the Reader's Size.
	HeaderSize() int
	// Parse parses a header of HeaderSize bytes, which it borrows. In the Header that Parse
	// returns, Payload must not be negative. If Parse returns an error, the stream ends, and the
	// Decoder returns that error.
	Parse(header []byte) (Header, error)
}

// An Encoding is a Format that can also write headers.
type Encoding interface {
	Format
	// AppendHeader appends the header h to dst, which it borrows, and returns the extended slice.
	// It returns an error if the protocol cannot express h.
	AppendHeader(dst []byte, h Header) ([]byte, error)
}

// A VarFormat parses headers that differ in size, such as a length of one to ten bytes. [Varint],
// [MQTT], [Lines] and [RESPBulk] are VarFormats. A VarFormat with state belongs to one Decoder or
// Encoder.
type VarFormat interface {
	// MaxHeader returns the size of the longest header in bytes, from 1 to the Reader's Size.
	MaxHeader() int
	// ParseVar parses the header at the start of p, which it borrows, and returns the header and
	// its size. The slice p has 1 to MaxHeader bytes. It may contain bytes after the header. If p
	// ends within the header, ParseVar returns the size 0, and the Decoder calls ParseVar again
	// when more bytes have arrived. If ParseVar returns an error, the stream ends, and the Decoder
	// returns that error.
	ParseVar(p []byte) (h Header, size int, err error)
}

// A VarEncoding is a VarFormat that can also write headers.
type VarEncoding interface {
	VarFormat
	// AppendHeader appends the header h to dst, which it borrows, and returns the extended slice.
	// It returns an error if the protocol cannot express h.
	AppendHeader(dst []byte, h Header) ([]byte, error)
}

// A Sealed is a Format with encrypted frames. Each frame has an encrypted header and then the
// payload in encrypted chunks.
//
// HeaderSize returns the size of the encrypted header. The Decoder calls Parse once for each frame.
// Parse decrypts the header and returns the size of the decrypted payload in Header.Payload.
//
// A Sealed belongs to one Decoder, because its state depends on the frames that it has decrypted.
type Sealed interface {
	Format
	// PlainHeader returns the plain text of the header that Parse decrypted last. The slice is
	// valid until the next Parse. The Decoder returns these bytes before the payload.
	PlainHeader() []byte
	// ChunkSize returns the size of the next encrypted chunk in bytes. The argument rest is the
	// number of bytes of plain text that are still missing from the payload, at least 1.
	ChunkSize(rest int) int
	// Open decrypts chunk in place and returns the plain text, which begins where chunk begins. The
	// plain text has at least 1 byte, and at most the rest of the payload. Open borrows chunk. If
	// Open returns an error, the stream ends, and the Decoder returns that error.
	Open(chunk []byte) ([]byte, error)
}
