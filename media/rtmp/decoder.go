package rtmp

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/millrace-io/millrace"
)

const (
	// defaultChunkSize is the chunk size, in bytes, that a peer uses until it sets another one.
	defaultChunkSize = 128

	// copyBelow is the chunk size, in bytes, below which payloads of several chunks are copied
	// together. A share of so few bytes would cost more than a copy, and would keep a whole block
	// in use.
	copyBelow = 1 << 10

	// maxChunkStreams limits the number of chunk streams of a connection. Encoders and players use
	// fewer than ten.
	maxChunkStreams = 128

	// maxCommandStreams is the same limit for a client that does not publish.
	maxCommandStreams = 16

	// leastCopy and mostCopy limit how much memory, in bytes, is allocated for copies at a time.
	// Between these limits, the amount is equal to the bytes copied so far.
	leastCopy, mostCopy = 512, 8 << 10

	// maxHeader is the size of the longest chunk header: number, fields, and extended timestamp.
	maxHeader = 3 + 11 + 4
)

// A Decoder turns the chunks of one direction of a connection into messages. It belongs to one
// goroutine at a time.
type Decoder struct {
	// Invariants, between calls of Next:
	//
	//	1 ≤ chunk ≤ maxBody
	//	unfinished = sum of the lengths of the streams' bodies ≤ maxUnfinished
	//	len(streams) ≤ maxStreams
	//	current == nil, or the header of its next chunk has been read, and left bytes of the payload have not

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
		first   uint32 // timestamp of its first part
	}
}

// A chunkStream is the last header of a chunk stream, and the message that is currently received on
// it.
type chunkStream struct {
	header
	unfinished bool // at least one chunk of the message has arrived, and more must follow
	begun      time.Time
	body       millrace.Chain
	room       millrace.Draft // memory after the body, for more copies
}

// A header holds the fields of a chunk header, including inherited ones.
type header struct {
	message  Message
	delta    uint32 // added to the timestamp when a chunk of form 3 begins a message
	field    uint32 // the last timestamp field: a time or a difference
	extended bool   // field came from the extended field of four bytes
}

// NewDecoder returns a Decoder that reads from r, which it borrows while in use. The Size of r must
// be at least 18; that of [millrace.NewReader] is 4096. If a message has more than maxMessage
// bytes, it is refused with a *LimitError. [Decoder.Release] releases unfinished messages.
func NewDecoder(r *millrace.Reader, maxMessage int) *Decoder {
	d := &Decoder{r: r, pool: millrace.DefaultPool(), maxStreams: maxChunkStreams,
		chunk: defaultChunkSize, copyBelow: copyBelow, streams: make(map[int]*chunkStream)}
	d.SetMaxMessage(maxMessage)
	return d
}

// SetMaxMessage changes the size limit for messages that begin from now on.
func (d *Decoder) SetMaxMessage(n int) {
	d.maxMessage = min(n, maxBody)
	d.maxUnfinished = 2 * d.maxMessage
}

// setPool sets the Pool for all blocks, including copies.
func (d *Decoder) setPool(p *millrace.Pool) {
	d.r.SetPool(p)
	d.pool = p
}

// limit is for a client without a stream. It limits the messages, the unfinished bytes and the
// chunk streams that the Decoder accepts. If the unfinished messages already exceed the limit, it
// returns an error.
func (d *Decoder) limit(bytes int) error {
	d.maxMessage, d.maxUnfinished, d.maxStreams = bytes, bytes, maxCommandStreams
	return d.fits(d.unfinished)
}

// fits returns an error if n bytes of unfinished messages exceed the limit.
func (d *Decoder) fits(n int) error {
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

// Next appends the body of the next message to dst, which then owns it. It executes Set Chunk Size
// and Abort. It splits an aggregate message into copies of its parts, which it returns one by one.
// It returns none of these three kinds of messages.
//
// If the connection ends between two messages, the error is io.EOF. If it ends inside a message,
// the error is io.ErrUnexpectedEOF. Otherwise the error is a *LimitError, describes an invalid
// header, or comes from the source. On any error dst is unchanged. After an error of the source,
// such as a deadline, nothing is lost, and the caller may call Next again.
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

// release releases the memory of s.
func (s *chunkStream) release() {
	s.body.Release()
	s.releaseRoom()
}

// releaseRoom releases the memory after the body.
func (s *chunkStream) releaseRoom() {
	s.room.Release()
	s.room = millrace.Draft{}
}

// appendCopy appends a copy of p to dst. It first uses the memory in room, and then blocks of pool.
// It leaves the rest of the last block in room.
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

// nextChunk reads the next chunk and appends its payload to the body of its chunk stream.
func (d *Decoder) nextChunk() (*chunkStream, error) {
	if d.current == nil {
		s, err := d.nextHeader()
		if err != nil {
			return nil, err
		}
		d.current, d.left = s, min(d.chunk, s.message.Size-s.body.Len())
	}
	s := d.current
	if err := d.fits(d.unfinished + d.left); err != nil {
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

// readPart moves the bytes of a payload that have arrived to body. If there are none, it waits for
// some. A payload may arrive in small parts, with deadlines in between. Its bytes then stay in the
// blocks that they fill.
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

// nextHeader reads the header of a chunk: all bytes before its payload.
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
		at += 1 + id // the number has one more byte, or two
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
	next := s.header // s is changed only when the whole header has arrived
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

// peekExtended peeks at the four bytes at offset at, which may be the extended timestamp of a
// header. It returns how many of them belong to the header. That is 4, or 0 for a chunk of form 3
// if the sender does not repeat the timestamp.
func (d *Decoder) peekExtended(next *header, form byte, at int) (n int, err error) {
	if form < 3 {
		p, err := d.peek(at + 4)
		if err != nil {
			return 0, err
		}
		next.field = binary.BigEndian.Uint32(p[at:])
		return 4, nil
	}
	// A sender may repeat the field, or send the time of the message. If the bytes are neither,
	// they are payload. The loop peeks at no more bytes than necessary, because at the end of a
	// message no more may follow for a long time.
	var field, time [4]byte
	binary.BigEndian.PutUint32(field[:], next.field)
	binary.BigEndian.PutUint32(time[:], next.message.Timestamp)
	for n := 1; n <= 4; n++ {
		p, err := d.peek(at + n)
		if err != nil {
			return 0, err
		}
		if got := string(p[at:]); got != string(field[:n]) && got != string(time[:n]) {
			return 0, nil
		}
	}
	return 4, nil
}

// begin updates the timestamp for a message that begins.
func (h *header) begin(form byte) {
	if form < 3 {
		// This is the difference for a next message that begins with form 3. After form 0, the
		// difference is the timestamp itself, as specified.
		h.delta = h.field
	}
	if form == 0 {
		h.message.Timestamp = 0
	}
	h.message.Timestamp += h.delta
}

// peek calls Peek inside a chunk.
func (d *Decoder) peek(n int) ([]byte, error) {
	if d.clock != nil && d.r.Buffered() < n { // the wait is inside a message
		d.clock.start(time.Now())
	}
	p, err := d.r.Peek(n)
	return p, noEOF(err)
}

// noEOF turns io.EOF into io.ErrUnexpectedEOF, because io.EOF would mean that the connection ended
// between two messages.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// setChunkSize executes a Set Chunk Size message.
func (d *Decoder) setChunkSize(body *millrace.Chain) error {
	defer body.Release()
	v, ok := uint32Of(body)
	if !ok || v < 1 || v > 1<<31-1 {
		return errChunkSize
	}
	d.chunk = int(min(v, maxBody)) // a larger size has the same effect
	return nil
}

// abort executes Abort, which drops an unfinished message.
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

// uint32Of returns the number at the start of body.
func uint32Of(body *millrace.Chain) (v uint32, ok bool) {
	var b [4]byte
	if body.Len() < len(b) {
		return 0, false
	}
	body.CopyTo(b[:])
	return binary.BigEndian.Uint32(b[:]), true
}

// nextPart returns the next part of an aggregate message. A part is an FLV tag. The last four bytes
// of the last tag may be missing.
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
	a.body.Cut(&part, size)
	var room millrace.Draft
	for p := range part.All() {
		// Do not append a share, because it would also keep in memory the parts that the caller
		// does not want.
		appendCopy(dst, &room, d.pool, p)
	}
	room.Release()
	part.Release()
	a.body.Discard(min(tail, a.body.Len()))
	return m, nil
}
