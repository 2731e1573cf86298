package rtmp

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/millrace-io/millrace"
)

const (
	// defaultChunkSize is the chunk size, in bytes, until the peer sets another one.
	defaultChunkSize = 128

	// copyBelow is the chunk size, in bytes, below which payloads are copied. Sharing a small chunk
	// costs more than a copy, and keeps an entire block in use.
	copyBelow = 1 << 10

	// maxChunkStreams limits the number of chunk streams of a publisher. Encoders use fewer than
	// ten.
	maxChunkStreams = 128

	// maxCommandStreams limits the number of chunk streams of a client that does not publish.
	maxCommandStreams = 16

	// A Decoder allocates memory for copies in blocks of leastCopy to mostCopy bytes. Within these
	// limits, a new block is as large as the part of the message that has already been copied.
	leastCopy, mostCopy = 512, 8 << 10

	// maxHeader is the size of the longest chunk header: 3 bytes for the number of the chunk
	// stream, 11 bytes for the message header, and 4 bytes for the extended timestamp.
	maxHeader = 3 + 11 + 4
)

// A Decoder reads the chunks of one direction of a connection and returns messages. It belongs to
// one goroutine at a time.
type Decoder struct {
	// Invariants, between calls of Next:
	//
	//	1 ≤ chunk ≤ maxBody
	//	unfinished = sum of the lengths of the streams' bodies ≤ maxUnfinished
	//	len(streams) ≤ maxStreams
	//	if current != nil, its chunk's header has been read, and left bytes of the payload remain

	r             *millrace.Reader
	pool          *millrace.Pool // pool of the blocks for copies
	maxMessage    int
	maxUnfinished int
	maxStreams    int
	chunk         int
	copyBelow     int
	streams       map[int]*chunkStream
	current       *chunkStream
	left          int
	unfinished    int
	received      uint64
	progress      func() error // called when a part of a payload has been read; may be nil
	clock         *messageClock

	aggregate struct { // the rest of an aggregate message
		message Message
		body    millrace.Chain
		begun   bool
		first   uint32 // timestamp of the first part
	}
}

// A chunkStream is the state of one chunk stream: its last header and its current message.
type chunkStream struct {
	header
	unfinished bool // some chunks of the message have arrived, but not all
	begun      time.Time
	body       millrace.Chain
	room       millrace.Draft // unused memory for further copies
}

// A header holds the fields of a chunk header, including the fields that the chunk inherits from
// the previous chunk of its chunk stream.
type header struct {
	message  Message
	delta    uint32 // timestamp difference to the next message, if that message begins with form 3
	field    uint32 // the last timestamp field: a timestamp or a difference
	extended bool   // the timestamp was in the extended field of four bytes
}

// NewDecoder returns a Decoder that reads from r. The Decoder borrows r for as long as the Decoder
// is used. The Size of r must be at least 18; a Reader from [millrace.NewReader] has the Size 4096.
// For a message of more than maxMessage bytes, Next returns a *LimitError. [Decoder.Release]
// releases unfinished messages.
func NewDecoder(r *millrace.Reader, maxMessage int) *Decoder {
	d := &Decoder{r: r, pool: millrace.DefaultPool(), maxStreams: maxChunkStreams,
		chunk: defaultChunkSize, copyBelow: copyBelow, streams: make(map[int]*chunkStream)}
	d.SetMaxMessage(maxMessage)
	return d
}

// SetMaxMessage sets the maximum size in bytes of messages that begin after the call.
func (d *Decoder) SetMaxMessage(n int) {
	d.maxMessage = min(n, maxBody)
	d.maxUnfinished = 2 * d.maxMessage
}

func (d *Decoder) setPool(p *millrace.Pool) {
	d.r.SetPool(p)
	d.pool = p
}

// setLimit reduces the maximum sizes for a client that does not publish. Each message may have at
// most n bytes. All unfinished messages together may have at most n bytes, too; if they already
// have more, setLimit returns an error.
func (d *Decoder) setLimit(n int) error {
	d.maxMessage, d.maxUnfinished, d.maxStreams = n, n, maxCommandStreams
	return d.checkUnfinished(d.unfinished)
}

func (d *Decoder) checkUnfinished(n int) error {
	if n > d.maxUnfinished {
		return &LimitError{"bytes of unfinished messages", int64(n), int64(d.maxUnfinished)}
	}
	return nil
}

// Received returns the number of bytes that have been read, for acknowledgements.
func (d *Decoder) Received() uint64 { return d.received }

// Release releases unfinished messages.
func (d *Decoder) Release() {
	for _, s := range d.streams {
		s.release()
	}
	d.clock.stop()
	d.aggregate.body.Release()
	d.streams, d.current, d.unfinished = nil, nil, 0
}

// Next appends the body of the next message to dst, which then owns it. Next handles Set Chunk Size
// and Abort messages itself. It returns the parts of an aggregate message one by one, as copies.
//
// If Next returns an error, dst is unchanged. The errors are:
//
//   - io.EOF: the connection ends between two messages.
//   - io.ErrUnexpectedEOF: the connection ends inside a message.
//   - A *LimitError, or an error for an invalid header.
//   - An error from the source, such as an expired deadline. The caller may then call Next again,
//     and no data is lost.
func (d *Decoder) Next(dst *millrace.Chain) (Message, error) {
	for {
		if d.aggregate.body.Len() > 0 {
			return d.nextPart(dst)
		}
		s, err := d.nextChunk()
		if err != nil {
			return Message{}, err
		}
		if s.unfinished {
			continue
		}
		d.unfinished -= s.body.Len()
		s.releaseRoom()
		d.settle()
		switch s.message.Type {
		case TypeSetChunkSize:
			err = d.setChunkSize(&s.body)
		case TypeAbort:
			d.abort(&s.body)
		case TypeAggregate:
			d.aggregate.message, d.aggregate.begun = s.message, false
			d.aggregate.body.Merge(&s.body)
		default:
			dst.Merge(&s.body)
			return s.message, nil
		}
		if err != nil {
			return Message{}, err
		}
	}
}

func (s *chunkStream) release() {
	s.body.Release()
	s.releaseRoom()
}

func (s *chunkStream) releaseRoom() {
	s.room.Release()
	s.room = millrace.Draft{}
}

// appendCopy appends a copy of p to dst. It writes the copy to the Draft room. When this Draft is
// full, appendCopy replaces it with a new Draft from the pool.
func appendCopy(dst *millrace.Chain, room *millrace.Draft, pool *millrace.Pool, p []byte) {
	for len(p) > 0 {
		if len(room.Bytes()) == 0 {
			room.Release()
			*room = pool.Get(max(len(p), leastCopy, min(dst.Len(), mostCopy)))
		}
		part := room.Cut(copy(room.Bytes(), p))
		p = p[part.Len():]
		dst.Append(&part)
	}
}

// nextChunk reads the next chunk and adds its payload to the message of its chunk stream.
func (d *Decoder) nextChunk() (*chunkStream, error) {
	if d.current == nil {
		s, err := d.nextHeader()
		if err != nil {
			return nil, err
		}
		d.current, d.left = s, min(d.chunk, s.message.Size-s.body.Len())
	}
	s := d.current
	if err := d.checkUnfinished(d.unfinished + d.left); err != nil {
		return nil, err
	}
	last := s.body.Len()+d.left == s.message.Size
	copied := d.chunk < d.copyBelow && (s.unfinished || !last)
	for d.left > 0 {
		if err := d.readPart(s, copied); err != nil {
			return nil, err
		}
	}
	d.current = nil
	if s.unfinished = !last; !last {
		d.clock.start(s.begun)
	}
	return s, nil
}

// readPart adds the received bytes of the current chunk's payload to the message of s. If no bytes
// have arrived, it waits for the first byte. If a deadline ends the wait, the caller may call
// readPart again later. If copied is set, the message gets a copy of the bytes. Otherwise the
// message shares the Reader's block.
func (d *Decoder) readPart(s *chunkStream, copied bool) error {
	if _, err := d.peek(1); err != nil {
		return err
	}
	n := min(d.left, d.r.Buffered())
	if copied {
		n = min(n, d.r.Size())
		p, err := d.peek(n)
		if err != nil {
			return err
		}
		appendCopy(&s.body, &s.room, d.pool, p)
		_, _ = d.r.Discard(n)
	} else if err := d.r.ReadChain(&s.body, n); err != nil {
		return noEOF(err)
	}
	d.left -= n
	d.received += uint64(n)
	d.unfinished += n
	if d.progress == nil {
		return nil
	}
	return d.progress()
}

// nextHeader reads the header of the next chunk, and returns the chunk's stream.
func (d *Decoder) nextHeader() (*chunkStream, error) {
	first, err := d.r.Peek(1)
	if err != nil {
		if err == io.EOF && d.unfinished > 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	form, id, at := first[0]>>6, int(first[0]&0x3f), 1
	if id < firstChunkStream {
		at += 1 + id // one or two more bytes contain the chunk stream's number
	}
	fields := [4]int{11, 7, 3, 0}[form]
	h, err := d.peek(at + fields)
	if err != nil {
		return nil, err
	}
	if at > 1 {
		id = 64 + int(h[1])
	}
	if at > 2 {
		id += int(h[2]) << 8
	}
	s, known := d.streams[id]
	if !known {
		if len(d.streams) >= d.maxStreams {
			return nil, &LimitError{"chunk streams", int64(len(d.streams)) + 1, int64(d.maxStreams)}
		}
		// A new chunk stream may begin with any form of header. Missing fields are 0.
		s = &chunkStream{header: header{message: Message{ChunkStream: id}}}
	}
	if s.unfinished && form != 3 {
		return nil, errNestedHeader
	}
	next := s.header // change s only after the complete header has arrived
	if h = h[at:]; form < 3 {
		next.field = uint32(h[0])<<16 | uint32(h[1])<<8 | uint32(h[2])
		next.extended = next.field == extended
	}
	if form < 2 {
		next.message.Size = int(h[3])<<16 | int(h[4])<<8 | int(h[5])
		next.message.Type = Type(h[6])
	}
	if form == 0 {
		next.message.Stream = binary.LittleEndian.Uint32(h[7:])
	}
	at += fields
	if next.extended {
		n, err := d.peekExtended(&next, form, at)
		if err != nil {
			return nil, err
		}
		at += n
	}
	if !s.unfinished {
		next.begin(form)
		if n := next.message.Size; n > d.maxMessage {
			return nil, &LimitError{What: "bytes of one message", Have: int64(n),
				Limit: int64(d.maxMessage)}
		}
	}
	_, _ = d.r.Discard(at)
	d.received += uint64(at)
	if s.header = next; !s.unfinished && d.clock != nil {
		s.begun = time.Now()
	}
	if !known {
		d.streams[id] = s
	}
	return s, nil
}

// peekExtended returns the length, in bytes, of a chunk's extended timestamp, which is usually 4.
// The timestamp begins at offset. If the chunk's header has form 3 (the shortest form), the sender
// may omit the timestamp, and the length is then 0.
func (d *Decoder) peekExtended(next *header, form byte, offset int) (n int, err error) {
	if form < 3 {
		p, err := d.peek(offset + 4)
		if err != nil {
			return 0, err
		}
		next.field = binary.BigEndian.Uint32(p[offset:])
		return 4, nil
	}
	// The header of this chunk is shortened (form 3). After such a header, the sender may repeat
	// the four bytes of an extended timestamp. They contain either the value of the field in the
	// previous header, or the timestamp of the message. If the next bytes equal neither value, they
	// are payload.
	//
	// Compare byte by byte. The payload may be shorter than four bytes, and the wait for more bytes
	// could take a long time.
	var field, time [4]byte
	binary.BigEndian.PutUint32(field[:], next.field)
	binary.BigEndian.PutUint32(time[:], next.message.Timestamp)
	for n := 1; n <= 4; n++ {
		p, err := d.peek(offset + n)
		if err != nil {
			return 0, err
		}
		if got := string(p[offset:]); got != string(field[:n]) && got != string(time[:n]) {
			return 0, nil
		}
	}
	return 4, nil
}

// begin computes the timestamp of a message from its first chunk header, which has the given form
// (0 to 3).
func (h *header) begin(form byte) {
	if form < 3 {
		// If the next message begins with form 3, its timestamp is later by h.delta. After form 0,
		// h.delta is the timestamp itself, as the specification requires.
		h.delta = h.field
	}
	if form == 0 {
		h.message.Timestamp = 0
	}
	h.message.Timestamp += h.delta
}

// peek returns the next n bytes of a chunk without consuming them. If peek must wait for bytes, it
// starts the time limit for the message.
func (d *Decoder) peek(n int) ([]byte, error) {
	if d.clock != nil && d.r.Buffered() < n { // must wait inside a message
		d.clock.start(time.Now())
	}
	p, err := d.r.Peek(n)
	return p, noEOF(err)
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (d *Decoder) setChunkSize(body *millrace.Chain) error {
	defer body.Release()
	v, ok := uint32Of(body)
	if !ok || v < 1 || v > 1<<31-1 {
		return errChunkSize
	}
	d.chunk = int(min(v, maxBody)) // no message is larger than maxBody
	return nil
}

// abort handles an Abort message. It drops the unfinished message that the Abort message names.
func (d *Decoder) abort(body *millrace.Chain) {
	defer body.Release()
	id, ok := uint32Of(body)
	if s := d.streams[int(id)]; ok && s != nil && s.unfinished {
		d.unfinished -= s.body.Len()
		s.release()
		s.unfinished = false
		d.settle()
	}
}

func uint32Of(body *millrace.Chain) (v uint32, ok bool) {
	var b [4]byte
	if body.Len() < len(b) {
		return 0, false
	}
	body.CopyTo(b[:])
	return binary.BigEndian.Uint32(b[:]), true
}

// nextPart returns the next part of an aggregate message. A part is an FLV tag. The
// previous-tag-size of the last tag may be missing.
func (d *Decoder) nextPart(dst *millrace.Chain) (Message, error) {
	const head, tail = 11, 4
	a := &d.aggregate
	var h [head]byte
	n := a.body.CopyTo(h[:])
	size := int(h[1])<<16 | int(h[2])<<8 | int(h[3])
	if n < head || a.body.Len()-head < size {
		a.body.Release()
		return Message{}, errAggregate
	}
	at := uint32(h[7])<<24 | uint32(h[4])<<16 | uint32(h[5])<<8 | uint32(h[6])
	if !a.begun {
		a.begun, a.first = true, at
	}
	m := a.message
	switch Type(h[0]) {
	case TypeSetChunkSize, TypeAbort, TypeAggregate: // Next does not return these types
		a.body.Release()
		return Message{}, errPart
	}
	m.Type, m.Size, m.Timestamp = Type(h[0]), size, m.Timestamp+at-a.first
	a.body.Discard(head)
	var part millrace.Chain
	a.body.CutTo(&part, size)
	var room millrace.Draft
	for p := range part.All() {
		// Copy the part. If dst shared it, the other parts would stay in memory, too.
		appendCopy(dst, &room, d.pool, p)
	}
	room.Release()
	part.Release()
	a.body.Discard(min(tail, a.body.Len()))
	return m, nil
}
