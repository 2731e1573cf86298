package rtmp

import (
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace"
)

// headerBlock is the size, in bytes, of a block for headers. It has room for 85 headers.
const headerBlock = 1 << 10

// An Encoder splits messages into chunks. It builds headers, and appends bodies by reference. The
// header of each message is complete and has the absolute time. The chunks of one Encoder can
// therefore be sent to any number of peers, and each peer may begin with any message.
//
// The zero Encoder is ready to use. It makes chunks of 128 bytes, the default of the protocol. It
// takes a block of memory for headers from the default Pool. Release returns the block to the Pool.
type Encoder struct {
	chunk int // chunk size in bytes; 0: defaultChunkSize
	room  millrace.Draft
}

// SetChunkSize appends a message to dst that announces chunks of n bytes, 1 to 16777215. The
// Encoder makes later chunks of that size.
func (e *Encoder) SetChunkSize(dst *millrace.Chain, n int) {
	if n < 1 || n > maxBody {
		panic(fmt.Sprintf("rtmp: SetChunkSize(%d): from 1 to %d bytes", n, maxBody))
	}
	e.appendNumber(dst, TypeSetChunkSize, uint32(n))
	e.chunk = n
}

// Append appends the chunks of a message to dst, which then owns them. It takes ownership of body
// and leaves body empty, even after an error. If body is longer than 16777215 bytes, the error is a
// *LimitError. Append ignores m.Size.
func (e *Encoder) Append(dst *millrace.Chain, m Message, body *millrace.Chain) error {
	if m.ChunkStream < firstChunkStream || m.ChunkStream > maxChunkStream {
		body.Release()
		return fmt.Errorf("rtmp: chunk stream %d: from %d to %d", m.ChunkStream, firstChunkStream,
			maxChunkStream)
	}
	n := body.Len()
	if n > maxBody {
		body.Release()
		return &LimitError{What: "bytes of one message (the protocol's 24 bits)", Have: int64(n),
			Limit: maxBody}
	}
	chunk := e.chunk
	if chunk == 0 {
		chunk = defaultChunkSize
	}
	var room [maxHeader]byte
	h := appendNumber(room[:0], 0, m.ChunkStream)
	short := min(m.Timestamp, extended)
	h = append(h, byte(short>>16), byte(short>>8), byte(short), byte(n>>16), byte(n>>8), byte(n),
		byte(m.Type))
	h = binary.LittleEndian.AppendUint32(h, m.Stream)
	if short == extended {
		h = binary.BigEndian.AppendUint32(h, m.Timestamp)
	}
	e.put(dst, h)
	for n > chunk {
		body.CutTo(dst, chunk)
		n -= chunk
		h := appendNumber(room[:0], 3, m.ChunkStream)
		if short == extended {
			h = binary.BigEndian.AppendUint32(h, m.Timestamp)
		}
		e.put(dst, h)
	}
	dst.Merge(body)
	return nil
}

// Release releases the Encoder's block for headers. The appended chunks stay valid.
func (e *Encoder) Release() { e.room.Release() }

func (e *Encoder) put(dst *millrace.Chain, h []byte) {
	if len(e.room.Bytes()) < len(h) {
		e.room.Release()
		e.room = millrace.DefaultPool().Get(headerBlock)
	}
	r := e.room.Cut(copy(e.room.Bytes(), h))
	dst.Append(&r)
}

// appendNumber appends the first field of a chunk header to b. The field contains the form of the
// header, from 0 to 3, and the id of the chunk stream. The form says which other fields follow.
func appendNumber(b []byte, form byte, id int) []byte {
	switch {
	case id < 64:
		return append(b, form<<6|byte(id))
	case id < 64+256:
		return append(b, form<<6, byte(id-64))
	}
	return append(b, form<<6|1, byte(id-64), byte((id-64)>>8))
}

// appendNumber appends a protocol control message with one number.
func (e *Encoder) appendNumber(dst *millrace.Chain, t Type, v uint32) {
	e.appendControl(dst, t, binary.BigEndian.AppendUint32(nil, v))
}

func (e *Encoder) appendControl(dst *millrace.Chain, t Type, p []byte) {
	e.appendBytes(dst, Message{Type: t, ChunkStream: controlChunks}, p)
}

func (e *Encoder) appendBytes(dst *millrace.Chain, m Message, p []byte) {
	var body millrace.Chain
	body.AppendCopy(p)
	if err := e.Append(dst, m, &body); err != nil {
		panic(err) // cannot happen: p is short, and the chunk stream is valid
	}
}

// Chunk streams of the server, one for each kind of message, so that no kind waits for another.
const (
	controlChunks = 2
	commandChunks = 3
	statusChunks  = 5
	AudioChunks   = 4 // for audio
	VideoChunks   = 6 // for video
	DataChunks    = 7 // for metadata
)
