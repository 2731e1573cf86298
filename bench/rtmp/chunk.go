package rtmp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/load"
)

var errProtocol = errors.New("rtmp: broken chunk")

// A reader assembles chunks into messages, answers pings and acknowledges the received bytes.
type reader struct {
	r       *millrace.Reader
	out     *writer
	chunk   int
	streams map[int]*message // by chunk stream number

	window, received, acked int64 // in bytes
	waited                  bool  // whether reading the current chunk had to wait
	head                    [11]byte
}

// A message holds the state of a chunk stream: the latest message, which may be incomplete. The
// next message inherits the fields that its header omits.
type message struct {
	timestamp, delta uint32
	extended         bool
	size             int
	kind             byte
	body             []byte
	whole, waited    bool
}

func newReader(r *millrace.Reader, out *writer) *reader {
	return &reader{r: r, out: out, chunk: 128, window: defaultWindow,
		streams: make(map[int]*message)}
}

// nextCommand waits for a command, and skips other messages. It returns the AMF0 values of the
// command, which are valid until the next call.
func (r *reader) nextCommand() ([]byte, error) {
	for {
		m, err := r.next()
		if err != nil {
			return nil, err
		}
		if m.kind == typeCommand {
			return m.body, nil
		}
	}
}

func (r *reader) nextMedia(a *load.Arrival) error {
	for {
		m, err := r.next()
		if err != nil {
			return err
		}
		switch m.kind {
		case load.Audio, load.Video, load.Script:
			*a = load.Arrival{Kind: m.kind, Timestamp: m.timestamp, Size: m.size, Head: m.body,
				Waited: m.waited}
			if m.waited {
				a.At = time.Now()
			}
			return nil
		}
	}
}

// next returns the next complete message, which is valid until the next call.
func (r *reader) next() (*message, error) {
	for {
		m, err := r.nextChunk()
		if err != nil {
			return nil, err
		}
		if m.whole = len(m.body) == m.size; !m.whole {
			continue
		}
		if r.received-r.acked >= r.window/2 { // acknowledge at least once per window
			r.acked = r.received
			if err := r.out.control(typeAck, uint32(r.received)); err != nil {
				return nil, err
			}
		}
		return m, r.obey(m)
	}
}

func (r *reader) obey(m *message) error {
	if m.kind > typePeerBandwidth || m.kind == 0 {
		return nil
	}
	if len(m.body) < 4 {
		return errProtocol
	}
	v := binary.BigEndian.Uint32(m.body)
	switch m.kind {
	case typeSetChunkSize:
		if v < 1 || v > 1<<24 {
			return errProtocol
		}
		r.chunk = int(v)
	case typeWindowAckSize:
		r.window = int64(max(v, 2))
	case typeUserControl:
		if v>>16 == eventPingRequest && len(m.body) >= 6 {
			return r.out.event(eventPingResponse, binary.BigEndian.Uint32(m.body[2:]))
		}
	}
	return nil
}

// nextChunk reads a chunk and returns the message that the chunk belongs to.
func (r *reader) nextChunk() (*message, error) {
	r.waited = false
	first, err := r.number(1)
	if err != nil {
		return nil, err
	}
	m, err := r.restOfChunk(byte(first>>6), int(first&63))
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // the input ended inside a chunk
	}
	return m, err
}

func (r *reader) restOfChunk(format byte, id int) (*message, error) {
	if id < 2 { // numbers above 63 follow in one or two bytes, low byte first
		low, err := r.number(1)
		high := uint64(0)
		if err == nil && id == 1 {
			high, err = r.number(1)
		}
		if err != nil {
			return nil, err
		}
		id = int(high<<8|low) + 64
	}
	m := r.streams[id]
	if m == nil {
		if format != 0 {
			return nil, fmt.Errorf("rtmp: chunk stream %d begins with header format %d", id, format)
		}
		m = &message{whole: true}
		r.streams[id] = m
	}
	if err := r.readHeader(m, format); err != nil {
		return nil, err
	}
	at := len(m.body)
	m.body = append(m.body, make([]byte, min(r.chunk, m.size-at))...)
	err := r.read(m.body[at:])
	m.waited = m.waited || r.waited
	return m, err
}

// readHeader reads a message header. If m is complete, a new message begins.
func (r *reader) readHeader(m *message, format byte) error {
	if !m.whole && format != 3 {
		return errProtocol
	}
	size := [4]int{11, 7, 3, 0}[format]
	h := r.head[:size]
	if err := r.read(h); err != nil {
		return err
	}
	if size > 0 {
		m.delta = uint32(h[0])<<16 | uint32(h[1])<<8 | uint32(h[2])
		m.extended = m.delta == extended
	}
	if size >= 7 {
		m.size, m.kind = int(h[3])<<16|int(h[4])<<8|int(h[5]), h[6]
	}
	if m.extended {
		v, err := r.number(4)
		if err != nil {
			return err
		}
		if format != 3 {
			m.delta = uint32(v)
		}
	}
	if m.whole {
		if format == 0 {
			m.timestamp = 0
		}
		m.timestamp += m.delta
		m.body, m.whole, m.waited = m.body[:0], false, false
	}
	return nil
}

func (r *reader) number(n int) (v uint64, err error) {
	err = r.read(r.head[:n])
	for _, b := range r.head[:n] {
		v = v<<8 | uint64(b)
	}
	return v, err
}

// read fills p and sets r.waited if it must wait for data.
func (r *reader) read(p []byte) error {
	r.waited = r.waited || r.r.Buffered() < len(p)
	n, err := io.ReadFull(r.r, p)
	r.received += int64(n)
	return err
}

// Chunk stream numbers of this client, one for each kind of message.
const (
	csControl = 2
	csCommand = 3
	csAudio   = 4
	csVideo   = 6
	csData    = 8
)

// extended is the value of the 24-bit timestamp field if the timestamp is too large for the field.
// The timestamp then follows the header, in four bytes.
const extended = 0xffffff

// A writer splits messages into chunks. It sends each message with one Write call.
type writer struct {
	mu     sync.Mutex
	w      io.Writer
	buf    []byte
	chunk  int
	stream uint32 // ID of the message stream of media messages
}

func newWriter(w io.Writer) *writer { return &writer{w: w, chunk: 128} }

func (w *writer) message(cs int, kind byte, stream, timestamp uint32, parts ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	b, ext := appendHeader(w.buf[:0], cs, kind, stream, timestamp, size)
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

// appendHeader appends a full chunk header. The result ext is the extended timestamp, which the
// next chunks of the message repeat.
func appendHeader(b []byte, cs int, kind byte, stream, timestamp uint32, size int) (_, ext []byte) {
	short := min(timestamp, extended)
	b = append(b, byte(cs), byte(short>>16), byte(short>>8), byte(short), byte(size>>16),
		byte(size>>8), byte(size), kind)
	b = binary.LittleEndian.AppendUint32(b, stream)
	if short == extended {
		ext = binary.BigEndian.AppendUint32(nil, timestamp)
	}
	return append(b, ext...), ext
}

func (w *writer) setChunkSize(n int) error {
	if err := w.control(typeSetChunkSize, uint32(n)); err != nil {
		return err
	}
	w.mu.Lock()
	w.chunk = n
	w.mu.Unlock()
	return nil
}

func (w *writer) control(kind byte, v uint32) error {
	return w.message(csControl, kind, 0, 0, binary.BigEndian.AppendUint32(nil, v))
}

func (w *writer) event(event uint16, values ...uint32) error {
	p := binary.BigEndian.AppendUint16(nil, event)
	for _, v := range values {
		p = binary.BigEndian.AppendUint32(p, v)
	}
	return w.message(csControl, typeUserControl, 0, 0, p)
}

func (w *writer) command(stream uint32, values ...any) error {
	return w.message(csCommand, typeCommand, stream, 0, appendAMF(nil, values...))
}
