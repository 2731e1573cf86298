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

// maxBody bounds the messages that are kept whole: commands and control.
const maxBody = 64 << 10

var errProtocol = errors.New("rtmp: broken chunk")

// reader puts chunks together. Of media it keeps only the first bytes; it
// answers pings and acknowledges what arrives.
type reader struct {
	r       *millrace.Reader
	out     *writer
	chunk   int
	media   int // bytes that are kept of sound, pictures and data
	streams map[int]*chunkStream

	window   int64
	received int64
	acked    int64
	waited   bool // for some byte of the message that is being read
}

// chunkStream is one sequence of messages, cut into chunks.
type chunkStream struct {
	timestamp uint32
	delta     uint32
	extended  bool
	size      int
	kind      byte

	got    int  // bytes of the message so far
	waited bool // for one of them
	keep   int  // how many of them are kept
	body   []byte
}

func newReader(r *millrace.Reader, out *writer) *reader {
	return &reader{r: r, out: out, chunk: 128, media: load.HeadLen, window: defaultWindow, streams: make(map[int]*chunkStream)}
}

// nextCommand waits for a command and returns its AMF0 values, valid until the next call. It answers control messages and
// passes over media.
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

// nextMedia waits for a message of sound, picture or data.
func (r *reader) nextMedia(a *load.Arrival) error {
	for {
		m, err := r.next()
		if err != nil {
			return err
		}
		switch m.kind {
		case load.Audio, load.Video, load.Script:
			a.Kind, a.Timestamp, a.Size, a.Head = m.kind, m.timestamp, m.size, m.body
			if a.Waited = m.waited; a.Waited {
				a.At = time.Now()
			}
			return nil
		}
	}
}

// next reads chunks until a message is whole. The message is valid until the
// next call.
func (r *reader) next() (*chunkStream, error) {
	for {
		s, err := r.nextChunk()
		if err != nil {
			return nil, err
		}
		if s.got < s.size {
			continue
		}
		s.got = 0
		if err := r.acknowledge(); err != nil {
			return nil, err
		}
		if err := r.obey(s); err != nil {
			return nil, err
		}
		return s, nil
	}
}

// acknowledge tells the server how much has come, at least once a window.
func (r *reader) acknowledge() error {
	if r.received-r.acked < r.window/2 {
		return nil
	}
	r.acked = r.received
	return r.out.control(typeAck, uint32(r.received))
}

// obey does what a control message says.
func (r *reader) obey(m *chunkStream) error {
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

func (r *reader) nextChunk() (*chunkStream, error) {
	r.waited = false
	r.await(1)
	b, err := r.r.ReadByte()
	if err != nil {
		return nil, err
	}
	format, id := b>>6, int(b&63)
	n := 1
	if id < 2 { // numbers that do not fit have one or two bytes more
		r.await(id + 1)
		v, err := r.r.ReadLE(id + 1)
		if err != nil {
			return nil, inside(err)
		}
		n += id + 1
		id = int(v) + 64
	}
	s := r.streams[id]
	if s == nil {
		if format != 0 {
			return nil, fmt.Errorf("rtmp: chunk stream %d begins with header format %d", id, format)
		}
		s = new(chunkStream)
		r.streams[id] = s
	}
	h, err := r.header(s, format)
	if err != nil {
		return nil, inside(err)
	}
	p, err := r.payload(s)
	r.received += int64(n + h + p)
	return s, inside(err)
}

// header reads what follows the basic header, and says how long it was.
func (r *reader) header(s *chunkStream, format byte) (int, error) {
	if s.got > 0 && format != 3 {
		return 0, errProtocol
	}
	size := [4]int{11, 7, 3, 0}[format]
	if size > 0 {
		r.await(size)
		p, err := r.r.Peek(size)
		if err != nil {
			return 0, err
		}
		s.delta = uint32(p[0])<<16 | uint32(p[1])<<8 | uint32(p[2])
		s.extended = s.delta == extended
		if size >= 7 {
			s.size = int(p[3])<<16 | int(p[4])<<8 | int(p[5])
			s.kind = p[6]
		}
		if err := r.r.Skip(size); err != nil {
			return 0, err
		}
	}
	if s.extended {
		r.await(4)
		v, err := r.r.ReadBE(4)
		if err != nil {
			return 0, err
		}
		if format != 3 {
			s.delta = uint32(v)
		}
		size += 4
	}
	if s.got == 0 {
		s.begin(format, r.media)
	}
	return size, nil
}

// begin starts a message. Of sound, pictures and data at most media bytes are kept.
func (s *chunkStream) begin(format byte, media int) {
	switch format {
	case 0:
		s.timestamp = s.delta
	default:
		s.timestamp += s.delta
	}
	s.waited = false
	s.body = s.body[:0]
	s.keep = min(s.size, maxBody)
	switch s.kind {
	case load.Audio, load.Video, load.Script:
		s.keep = min(s.size, media)
	}
}

// payload reads the chunk's share of the message.
func (r *reader) payload(s *chunkStream) (int, error) {
	n := min(r.chunk, s.size-s.got)
	r.await(n)
	keep := min(n, s.keep-len(s.body))
	if keep > 0 {
		at := len(s.body)
		s.body = append(s.body, make([]byte, keep)...)
		if _, err := io.ReadFull(r.r, s.body[at:]); err != nil {
			return 0, err
		}
	}
	if err := r.r.Skip(n - max(keep, 0)); err != nil {
		return 0, err
	}
	s.got += n
	s.waited = s.waited || r.waited
	return n, nil
}

// await notes whether reading n bytes means waiting.
func (r *reader) await(n int) {
	if r.r.Buffered() < n {
		r.waited = true
	}
}

// inside is the end of the connection in the middle of a chunk.
func inside(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Chunk streams of this client: each kind of message has its own.
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
	b, ext := header(w.buf[:0], cs, kind, stream, timestamp, size)
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

// header appends a full header. ext is the extended timestamp, which the chunks that follow repeat.
func header(b []byte, cs int, kind byte, stream, timestamp uint32, size int) (_, ext []byte) {
	short := min(timestamp, extended)
	b = append(b, byte(cs), byte(short>>16), byte(short>>8), byte(short), byte(size>>16), byte(size>>8), byte(size), kind)
	b = binary.LittleEndian.AppendUint32(b, stream)
	if short == extended {
		ext = binary.BigEndian.AppendUint32(nil, timestamp)
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
