package rtmp_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"github.com/millrace-io/millrace/media/rtmp"
)

// basicHeader builds the first field of a chunk in 1, 2 or 3 bytes.
func basicHeader(form byte, id, size int) []byte {
	switch size {
	case 1:
		return []byte{form<<6 | byte(id)}
	case 2:
		return []byte{form << 6, byte(id - 64)}
	}
	return []byte{form<<6 | 1, byte((id - 64) % 256), byte((id - 64) / 256)}
}

// basicSizes returns the sizes that the first field may have.
func basicSizes(id int) (sizes []int) {
	if id < 64 {
		sizes = append(sizes, 1)
	}
	if id >= 64 && id < 320 {
		sizes = append(sizes, 2)
	}
	if id >= 64 {
		sizes = append(sizes, 3)
	}
	return sizes
}

// rawHeader builds the header of a message's first chunk. ts is the time in form 0, and a
// difference in forms 1 and 2.
func rawHeader(form byte, id int, ts uint32, size int, kind byte, stream uint32) []byte {
	sizes := basicSizes(id)
	b := basicHeader(form, id, sizes[0])
	short := min(ts, 0xffffff)
	if form < 3 {
		b = append(b, byte(short>>16), byte(short>>8), byte(short))
	}
	if form < 2 {
		b = append(b, byte(size>>16), byte(size>>8), byte(size), kind)
	}
	if form < 1 {
		b = binary.LittleEndian.AppendUint32(b, stream)
	}
	if form < 3 && short == 0xffffff {
		b = binary.BigEndian.AppendUint32(b, ts)
	}
	return b
}

// rawMessage builds a message in one chunk, on chunk stream 3 and message stream 1.
func rawMessage(kind byte, ts uint32, body string) string {
	return string(rawHeader(0, 3, ts, len(body), kind, 1)) + body
}

// rawChunks builds a message in chunks. All chunks except the first have headers of form 3.
func rawChunks(id int, kind byte, ts uint32, stream uint32, body string, chunk int,
	repeat bool) string {
	out := rawHeader(0, id, ts, len(body), kind, stream)
	for {
		n := min(chunk, len(body))
		out = append(out, body[:n]...)
		if body = body[n:]; body == "" {
			return string(out)
		}
		out = append(out, basicHeader(3, id, basicSizes(id)[0])...)
		if repeat && ts >= 0xffffff {
			out = binary.BigEndian.AppendUint32(out, ts)
		}
	}
}

// control builds a protocol control message.
func control(kind byte, v uint32) string {
	return string(rawHeader(0, 2, 0, 4, kind, 0)) + string(binary.BigEndian.AppendUint32(nil, v))
}

// A rawSender makes a session. It records what it sends, so the expected messages need no
// reference.
type rawSender struct {
	rnd     *rand.Rand
	out     []byte
	chunk   int
	max     int // limit of a body, in bytes
	ids     []int
	streams map[int]*rawStream
	want    []slowMessage

	// The bytes that a sender adds after form 3 when the previous header had an extended timestamp:
	// nothing, the same field again, or the time of the message.
	extension int
}

const (
	extendNever = iota
	extendField
	extendTime
)

// rawStream is the sender's state of a chunk stream.
type rawStream struct {
	last    rtmp.Message
	delta   uint32
	field   uint32
	rest    []byte // of the unfinished message
	body    []byte
	parts   []slowMessage // parts of an aggregate message
	basic   int           // size of the first field
	begun   bool
	partway bool
}

func newRawSender(rnd *rand.Rand, maxBody int) *rawSender {
	s := &rawSender{rnd: rnd, chunk: 128, max: maxBody, streams: map[int]*rawStream{},
		extension: rnd.IntN(3)}
	all := []int{2, 3, 4, 5, 31, 32, 63, 64, 65, 100, 319, 320, 321, 1000, 65598, 65599}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	s.ids = all[:1+rnd.IntN(6)]
	for _, id := range s.ids {
		sizes := basicSizes(id)
		s.streams[id] = &rawStream{last: rtmp.Message{ChunkStream: id},
			basic: sizes[rnd.IntN(len(sizes))]}
	}
	return s
}

// randomSession returns a session of about n messages, and the messages that arrive.
func randomSession(rnd *rand.Rand, n, maxBody int) ([]byte, []slowMessage) {
	s := newRawSender(rnd, maxBody)
	for len(s.want) < n {
		id := s.ids[rnd.IntN(len(s.ids))]
		st := s.streams[id]
		switch {
		case st.begun && rnd.IntN(20) == 0:
			s.abort(id)
		case st.begun:
			s.sendChunk(id)
		case rnd.IntN(12) == 0:
			s.setChunkSize()
		default:
			s.begin(id)
			s.sendChunk(id)
		}
	}
	for _, id := range s.ids {
		for s.streams[id].begun {
			s.sendChunk(id)
		}
	}
	// After an empty message of form 3, a receiver looks for the four bytes of a timestamp. These
	// are different bytes.
	end := rtmp.Message{Type: rtmp.TypeAudio, ChunkStream: 50}
	s.want = append(s.want, slowMessage{Message: end})
	return append(s.out, rawHeader(0, 50, 0, 0, 8, 0)...), s.want
}

// begin chooses a message, and the header form with the fewest fields, or one with more.
func (s *rawSender) begin(id int) {
	kinds := []rtmp.Type{rtmp.TypeAudio, rtmp.TypeVideo, rtmp.TypeData, rtmp.TypeCommand, 99,
		rtmp.TypeAggregate}
	st := s.streams[id]
	m := rtmp.Message{Type: kinds[s.rnd.IntN(len(kinds))], ChunkStream: id,
		Stream: s.rnd.Uint32N(3), Size: s.size()}
	if s.rnd.IntN(10) == 0 {
		m.Stream = s.rnd.Uint32()
	}
	switch s.rnd.IntN(5) {
	case 0:
		m.Timestamp = s.rnd.Uint32() // any time
	case 1:
		// This includes the value that announces an extended timestamp.
		m.Timestamp = 0xfffffe + s.rnd.Uint32N(3)
	case 2:
		m.Timestamp = st.last.Timestamp + 0xfffffe + s.rnd.Uint32N(3)
	default:
		m.Timestamp = st.last.Timestamp + s.rnd.Uint32N(100)
	}
	own := st.last.Type == rtmp.TypeSetChunkSize || st.last.Type == rtmp.TypeAbort ||
		st.last.Type == rtmp.TypeAggregate
	if !own && s.rnd.IntN(2) == 0 { // a time that form 2 can announce
		m.Type, m.Size, m.Stream = st.last.Type, st.last.Size, st.last.Stream
		if s.rnd.IntN(2) == 0 { // or 3
			m.Timestamp = st.last.Timestamp + st.delta
		}
	}
	body := make([]byte, m.Size)
	for i := range body {
		body[i] = byte(s.rnd.Uint32())
	}
	if m.Type == rtmp.TypeAggregate {
		body, st.parts = s.aggregate(m)
		m.Size = len(body)
	}
	st.body, st.rest, st.begun = body, body, true
	s.header(st, m)
}

// header sends the header of m, in a form that is sufficient.
func (s *rawSender) header(st *rawStream, m rtmp.Message) {
	forms := []byte{0}
	delta := m.Timestamp - st.last.Timestamp
	if m.Stream == st.last.Stream {
		forms = append(forms, 1)
		if m.Type == st.last.Type && m.Size == st.last.Size {
			forms = append(forms, 2)
			if delta == st.delta {
				forms = append(forms, 3, 3, 3)
			}
		}
	}
	form := forms[s.rnd.IntN(len(forms))]
	switch form {
	case 0:
		st.field, st.delta = m.Timestamp, m.Timestamp
	case 1, 2:
		st.field, st.delta = delta, delta
	}
	h := rawHeader(form, 3, st.field, m.Size, byte(m.Type), m.Stream)
	s.out = append(append(s.out, basicHeader(form, m.ChunkStream, st.basic)...), h[1:]...)
	if form == 3 && st.field >= 0xffffff && s.extension != extendNever {
		s.out = binary.BigEndian.AppendUint32(s.out, st.field)
	}
	st.last = m
	st.partway = false
}

// sendChunk sends the next chunk of the unfinished message.
func (s *rawSender) sendChunk(id int) {
	st := s.streams[id]
	if st.partway {
		s.out = append(s.out, basicHeader(3, id, st.basic)...)
		if st.field >= 0xffffff {
			switch s.extension {
			case extendField:
				s.out = binary.BigEndian.AppendUint32(s.out, st.field)
			case extendTime:
				s.out = binary.BigEndian.AppendUint32(s.out, st.last.Timestamp)
			}
		}
	}
	n := min(s.chunk, len(st.rest))
	s.out = append(s.out, st.rest[:n]...)
	st.rest, st.partway = st.rest[n:], true
	if len(st.rest) > 0 {
		return
	}
	st.begun = false
	if st.last.Type == rtmp.TypeAggregate {
		s.want = append(s.want, st.parts...)
		return
	}
	s.want = append(s.want, slowMessage{st.last, string(st.body)})
}

// aggregate returns the body of an aggregate message, and its parts.
func (s *rawSender) aggregate(m rtmp.Message) (body []byte, parts []slowMessage) {
	first := s.rnd.Uint32()
	for i := range 1 + s.rnd.IntN(4) {
		kind := []rtmp.Type{rtmp.TypeAudio, rtmp.TypeVideo, rtmp.TypeData}[s.rnd.IntN(3)]
		at := first
		if i > 0 {
			at += s.rnd.Uint32N(50)
		}
		p := make([]byte, s.rnd.IntN(30))
		body = append(body, byte(kind), 0, 0, byte(len(p)), byte(at>>16), byte(at>>8), byte(at),
			byte(at>>24), 0, 0, 0)
		body = append(body, p...)
		body = binary.BigEndian.AppendUint32(body, uint32(11+len(p)))
		part := m
		part.Type, part.Size, part.Timestamp = kind, len(p), m.Timestamp+at-first
		parts = append(parts, slowMessage{part, string(p)})
	}
	if s.rnd.IntN(4) == 0 {
		body = body[:len(body)-4]
	}
	return body, parts
}

// abort tells the receiver to drop an unfinished message.
func (s *rawSender) abort(id int) {
	st := s.streams[id]
	on := s.free()
	if on == nil || !st.partway {
		return
	}
	s.own(on, rtmp.TypeAbort, uint32(id))
	st.begun, st.rest, st.body = false, nil, nil
}

// setChunkSize changes the chunk size, also of unfinished messages.
func (s *rawSender) setChunkSize() {
	on := s.free()
	if on == nil {
		return
	}
	n := 1 + s.rnd.IntN(1<<s.rnd.IntN(25)) // up to 16 MiB
	s.own(on, rtmp.TypeSetChunkSize, uint32(n))
	s.chunk = n
}

// free returns a chunk stream without an unfinished message.
func (s *rawSender) free() *rawStream {
	ids := slices.Clone(s.ids)
	s.rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		if st := s.streams[id]; !st.begun {
			return st
		}
	}
	return nil
}

// own sends a message for the receiver itself, which is not in want.
func (s *rawSender) own(st *rawStream, kind rtmp.Type, v uint32) {
	m := st.last
	m.Type, m.Size = kind, 4
	m.Timestamp += s.rnd.Uint32N(3)
	body := binary.BigEndian.AppendUint32(nil, v)
	st.body, st.rest, st.begun = body, body, true
	s.header(st, m)
	n := len(s.want)
	for st.begun {
		s.sendChunk(m.ChunkStream)
	}
	s.want = s.want[:n]
}

// size returns the size of a body.
func (s *rawSender) size() int {
	switch s.rnd.IntN(5) {
	case 0:
		return 0
	case 1:
		return min(s.max, s.rnd.IntN(10))
	case 2:
		return min(s.max, s.chunk%100_000*s.rnd.IntN(3)) // a whole number of chunks
	case 3:
		return s.rnd.IntN(min(s.max, 5000) + 1)
	}
	return s.rnd.IntN(s.max + 1)
}
