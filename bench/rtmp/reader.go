package rtmp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	return &reader{r: r, out: out, chunk: 128, window: defaultWindow, streams: make(map[int]*chunkStream)}
}

// nextCommand waits for a command; it answers control messages and passes over
// media.
func (r *reader) nextCommand() ([]any, error) {
	for {
		m, err := r.next()
		if err != nil {
			return nil, err
		}
		if m.kind != typeCommand {
			continue
		}
		values, err := decodeAMF(m.body)
		if err != nil || len(values) > 0 {
			return values, err
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
	case typeAbort:
		if s := r.streams[int(v)]; s != nil {
			s.got = 0
		}
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
		s.begin(format)
	}
	return size, nil
}

// begin starts a message.
func (s *chunkStream) begin(format byte) {
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
		s.keep = min(s.size, load.HeadLen)
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
