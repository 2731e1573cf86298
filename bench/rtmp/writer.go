package rtmp

import (
	"encoding/binary"
	"io"
	"sync"
)

// Chunk streams of this client. The number says which header a shorter one
// refers to, so each kind of message has its own.
const (
	csControl = 2
	csCommand = 3
	csAudio   = 4
	csVideo   = 6
	csData    = 8
)

// extended marks a timestamp of 24 bits as standing in four bytes more.
const extended = 0xffffff

// writer cuts messages into chunks. Each message leaves in one write.
type writer struct {
	mu     sync.Mutex
	w      io.Writer
	buf    []byte
	chunk  int
	stream uint32 // that messages of media belong to
	last   [16]chunkHeader
}

// chunkHeader is what the following header of a chunk stream leaves out.
type chunkHeader struct {
	known     bool
	timestamp uint32
}

func newWriter(w io.Writer) *writer { return &writer{w: w, chunk: 128} }

// message writes one message on chunk stream cs.
func (w *writer) message(cs int, kind byte, stream, timestamp uint32, parts ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	b, ext := w.header(w.buf[:0], cs, kind, stream, timestamp, size)
	room := w.chunk
	for _, p := range parts {
		for len(p) > 0 {
			if room == 0 {
				b = append(b, 3<<6|byte(cs))
				b = append(b, ext...)
				room = w.chunk
			}
			n := min(room, len(p))
			b = append(b, p[:n]...)
			p, room = p[n:], room-n
		}
	}
	w.buf = b
	_, err := w.w.Write(b)
	return err
}

// header appends a full header, or the one without a stream where the stream
// and the direction of time allow. ext is the extended timestamp, which the
// chunks that follow repeat.
func (w *writer) header(b []byte, cs int, kind byte, stream, timestamp uint32, size int) (_, ext []byte) {
	prev := &w.last[cs]
	format, field := byte(0), timestamp
	if prev.known && timestamp >= prev.timestamp && stream != 0 {
		format, field = 1, timestamp-prev.timestamp
	}
	*prev = chunkHeader{known: stream != 0, timestamp: timestamp}

	short := min(field, extended)
	b = append(b, format<<6|byte(cs), byte(short>>16), byte(short>>8), byte(short),
		byte(size>>16), byte(size>>8), byte(size), kind)
	if format == 0 {
		b = binary.LittleEndian.AppendUint32(b, stream)
	}
	if short == extended {
		ext = binary.BigEndian.AppendUint32(nil, field)
	}
	return append(b, ext...), ext
}

// setChunkSize announces the size and keeps to it.
func (w *writer) setChunkSize(n int) error {
	if err := w.control(typeSetChunkSize, uint32(n)); err != nil {
		return err
	}
	w.mu.Lock()
	w.chunk = n
	w.mu.Unlock()
	return nil
}

// control writes a protocol control message of one number.
func (w *writer) control(kind byte, v uint32) error {
	return w.message(csControl, kind, 0, 0, binary.BigEndian.AppendUint32(nil, v))
}

// event writes a user control message.
func (w *writer) event(event uint16, values ...uint32) error {
	p := binary.BigEndian.AppendUint16(nil, event)
	for _, v := range values {
		p = binary.BigEndian.AppendUint32(p, v)
	}
	return w.message(csControl, typeUserControl, 0, 0, p)
}

// command writes an AMF0 command.
func (w *writer) command(stream uint32, values ...any) error {
	return w.message(csCommand, typeCommand, stream, 0, appendAMF(nil, values...))
}
