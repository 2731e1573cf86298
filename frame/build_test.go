package frame_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/millrace-io/millrace/frame"
)

// record is a format for tests: a flag and the kind in one byte, the length of the payload in
// three, big-endian.
type record struct{}

const (
	recordSize = 4
	recordMost = 1<<24 - 1
	badKind    = 0x7f // Parse refuses it
)

var (
	errKind    = errors.New("no such kind")
	errTooLong = errors.New("too long for three bytes")
)

func (record) HeaderSize() int { return recordSize }

func (record) Parse(p []byte) (frame.Header, error) {
	h := frame.Header{
		Payload: int(p[1])<<16 | int(p[2])<<8 | int(p[3]),
		Kind:    uint32(p[0] & 0x7f),
		Info:    uint64(p[0] >> 7),
	}
	if len(p) != recordSize || h.Kind == badKind {
		return frame.Header{}, errKind
	}
	return h, nil
}

func (record) AppendHeader(dst []byte, h frame.Header) ([]byte, error) {
	if h.Payload > recordMost {
		return dst, errTooLong
	}
	return append(dst, byte(h.Kind)|byte(h.Info<<7), byte(h.Payload>>16), byte(h.Payload>>8),
		byte(h.Payload)), nil
}

// rawFrame builds a record by hand.
func rawFrame(kind byte, payload string) string {
	n := len(payload)
	return string([]byte{kind, byte(n >> 16), byte(n >> 8), byte(n)}) + payload
}

// slowFrame is the reference's form of a frame.
type slowFrame struct {
	frame.Header
	raw string
}

// limits are the limits of a Decoder, for the reference.
type limits struct {
	most int
	kind map[uint32]int
}

func (l limits) options() []frame.Option {
	opts := []frame.Option{frame.MaxPayload(l.most)}
	for kind, n := range l.kind {
		opts = append(opts, frame.MaxKind(kind, n))
	}
	return opts
}

// slowParse is the reference: it slices the complete stream. It returns the frames before the first
// error.
func slowParse(b string, l limits) (frames []slowFrame, err error) {
	for len(b) > 0 {
		if len(b) < 4 {
			return frames, io.ErrUnexpectedEOF
		}
		kind, n := uint32(b[0]%128), int(b[1])*65536+int(b[2])*256+int(b[3])
		if kind == badKind {
			return frames, errKind
		}
		most, ok := l.kind[kind]
		if !ok {
			most = l.most
		}
		if n > most {
			return frames, &frame.LimitError{Kind: kind, Have: n, Limit: most}
		}
		if len(b) < 4+n {
			return frames, io.ErrUnexpectedEOF
		}
		frames = append(frames, slowFrame{frame.Header{Payload: n, Kind: kind,
			Info: uint64(b[0] / 128)}, b[:4+n]})
		b = b[4+n:]
	}
	return frames, io.EOF
}

// randomBytes returns n random bytes.
func randomBytes(rnd *rand.Rand, n int) string {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(rnd.Uint32())
	}
	return string(p)
}

// randomStream builds a well-formed stream of n frames. Their lengths are just below and just above
// the steps in which memory is granted.
func randomStream(rnd *rand.Rand, n int) string {
	s := ""
	for range n {
		size := 0
		switch rnd.IntN(8) {
		case 0:
		case 1:
			size = 4000 + rnd.IntN(200)
		case 2:
			size = 8100 + rnd.IntN(200)
		case 3:
			size = rnd.IntN(70_000)
		default:
			size = rnd.IntN(300)
		}
		s += rawFrame(byte(rnd.IntN(badKind))|byte(rnd.IntN(2))<<7, randomBytes(rnd, size))
	}
	return s
}

// masked is a sealed format for tests. Each byte is combined with a number that counts headers and
// chunks. Each header and chunk is followed by a sum that depends on the number. The sealed frames
// are records.
type masked struct {
	calls byte
	plain [recordSize]byte
}

const maskedChunk = 8

var errSum = errors.New("wrong sum")

func (m *masked) HeaderSize() int { return recordSize + 1 }

func (m *masked) Parse(p []byte) (frame.Header, error) {
	copy(m.plain[:], p)
	if _, err := m.open(m.plain[:], p[recordSize]); err != nil {
		return frame.Header{}, err
	}
	return record{}.Parse(m.plain[:])
}

func (m *masked) PlainHeader() []byte { return m.plain[:] }

func (m *masked) ChunkSize(rest int) int { return min(rest, maskedChunk) + 1 }

func (m *masked) Open(chunk []byte) ([]byte, error) {
	last := len(chunk) - 1
	return m.open(chunk[:last], chunk[last])
}

func (m *masked) open(p []byte, sum byte) ([]byte, error) {
	m.calls++
	if sum != m.sum(p) {
		return nil, fmt.Errorf("call %d: %w", m.calls, errSum)
	}
	m.mask(p)
	return p, nil
}

// mask masks or unmasks p.
func (m *masked) mask(p []byte) {
	for i := range p {
		p[i] ^= m.calls
	}
}

// sum returns a checksum of p. Any change of one byte changes it.
func (m *masked) sum(p []byte) byte {
	sum := m.calls
	for _, b := range p {
		sum = 31*sum + b
	}
	return sum
}

// seal returns the sealed form of frames, which are consecutive records.
func (m *masked) seal(frames ...string) string {
	var wire []byte
	seal := func(s string) {
		m.calls++
		p := []byte(s)
		m.mask(p)
		wire = append(append(wire, p...), m.sum(p))
	}
	for _, f := range frames {
		seal(f[:recordSize])
		for f = f[recordSize:]; len(f) > 0; f = f[min(len(f), maskedChunk):] {
			seal(f[:min(len(f), maskedChunk)])
		}
	}
	return string(wire)
}
