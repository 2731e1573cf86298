package rtmp_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-io/millrace/media/rtmp"
)

// slowMessage is the reference's form of a message.
type slowMessage struct {
	rtmp.Message
	body string
}

var (
	errSlowNested    = errors.New("slow: another header than form 3 inside a message")
	errSlowChunkSize = errors.New("slow: chunk size")
	errSlowAggregate = errors.New("slow: aggregate")
	errSlowLimit     = errors.New("slow: limit")
)

// slowLimits are the reference's own copies of the limits.
const (
	slowMaxStreams = 128
	slowMaxSize    = 1<<24 - 1
)

// slowStream is the reference's state of a chunk stream: the fields of the last header, as the
// specification names them.
type slowStream struct {
	timestamp, timestampDelta uint32
	messageLength             int
	messageTypeID             byte
	messageStreamID           uint32

	field    uint32 // the last timestamp field
	extended bool
	open     bool
	payload  []byte
}

// slowDecode is the reference: it slices the complete connection, and follows sections 5.3 and 5.4
// of the specification. It returns the messages before the first error.
func slowDecode(b []byte, maxMessage int) (list []slowMessage, err error) {
	chunkSize := 128
	streams := map[int]*slowStream{}
	for {
		held := 0
		for _, s := range streams {
			held += len(s.payload)
		}
		if len(b) == 0 && held == 0 {
			return list, io.EOF
		}
		id, s, rest, err := slowHeader(b, streams)
		if err != nil {
			return list, err
		}
		if !s.open && s.messageLength > maxMessage {
			return list, errSlowLimit
		}
		n := min(chunkSize, s.messageLength-len(s.payload))
		if held+n > 2*maxMessage {
			return list, errSlowLimit
		}
		if len(rest) < n {
			return list, io.ErrUnexpectedEOF
		}
		s.payload = append(s.payload, rest[:n]...)
		b = rest[n:]
		if s.open = len(s.payload) < s.messageLength; s.open {
			continue
		}
		body := s.payload
		s.payload = nil
		switch s.messageTypeID {
		case 1:
			if len(body) < 4 || body[0] > 127 || binary.BigEndian.Uint32(body) == 0 {
				return list, errSlowChunkSize
			}
			chunkSize = min(int(binary.BigEndian.Uint32(body)), slowMaxSize)
		case 2:
			if len(body) >= 4 {
				if t := streams[int(binary.BigEndian.Uint32(body))]; t != nil {
					t.open, t.payload = false, nil
				}
			}
		case 22:
			parts, err := slowAggregate(s, id, body)
			list = append(list, parts...)
			if err != nil {
				return list, err
			}
		default:
			list = append(list, slowMessage{rtmp.Message{Type: rtmp.Type(s.messageTypeID),
				ChunkStream: id,
				Stream:      s.messageStreamID, Timestamp: s.timestamp, Size: len(body)},
				string(body)})
		}
	}
}

// slowHeader reads a basic header, a message header and an extended timestamp.
func slowHeader(b []byte, streams map[int]*slowStream) (id int, s *slowStream, rest []byte,
	err error) {
	take := func(n int) []byte {
		if len(b) < n {
			err = io.ErrUnexpectedEOF
			return make([]byte, n)
		}
		p := b[:n]
		b = b[n:]
		return p
	}
	first := take(1)[0]
	form := first >> 6
	switch id = int(first & 63); id {
	case 0:
		id = 64 + int(take(1)[0])
	case 1:
		p := take(2)
		id = 64 + int(p[0]) + 256*int(p[1])
	}
	h := take([]int{11, 7, 3, 0}[form])
	if err != nil {
		return 0, nil, nil, err
	}
	s = streams[id]
	if s == nil {
		if len(streams) == slowMaxStreams {
			return 0, nil, nil, errSlowLimit
		}
		s = &slowStream{}
		streams[id] = s
	}
	if s.open && form != 3 {
		return 0, nil, nil, errSlowNested
	}
	if form <= 1 {
		s.messageLength = int(h[3])<<16 + int(h[4])<<8 + int(h[5])
		s.messageTypeID = h[6]
	}
	if form == 0 {
		s.messageStreamID = binary.LittleEndian.Uint32(h[7:])
	}
	switch {
	case form <= 2:
		s.field = uint32(h[0])<<16 + uint32(h[1])<<8 + uint32(h[2])
		if s.extended = s.field == 0xffffff; s.extended {
			s.field = binary.BigEndian.Uint32(take(4))
		}
	case s.extended:
		// Four bytes repeat the timestamp field, or are the message's time. Other bytes are
		// payload.
		n, wait := slowRepeats(b, s.field)
		m, waitToo := slowRepeats(b, s.timestamp)
		if n+m == 0 && (wait || waitToo) {
			err = io.ErrUnexpectedEOF
		}
		b = b[max(n, m):]
	}
	if err != nil {
		return 0, nil, nil, err
	}
	if !s.open {
		switch form {
		case 0:
			s.timestamp, s.timestampDelta = s.field, s.field
		case 1, 2:
			s.timestampDelta = s.field
			s.timestamp += s.timestampDelta
		case 3:
			s.timestamp += s.timestampDelta
		}
	}
	return id, s, b, nil
}

// slowRepeats returns 4 if b begins with v. wait is set if b ends too early to decide.
func slowRepeats(b []byte, v uint32) (n int, wait bool) {
	want := string(binary.BigEndian.AppendUint32(nil, v))
	if len(b) < 4 {
		return 0, string(b) == want[:len(b)]
	}
	if string(b[:4]) == want {
		return 4, false
	}
	return 0, false
}

// slowAggregate splits an aggregate message.
func slowAggregate(s *slowStream, id int, body []byte) (parts []slowMessage, err error) {
	var first uint32
	for n := 0; len(body) > 0; n++ {
		if len(body) < 11 {
			return parts, errSlowAggregate
		}
		size := int(body[1])<<16 + int(body[2])<<8 + int(body[3])
		at := binary.BigEndian.Uint32([]byte{body[7], body[4], body[5], body[6]})
		if n == 0 {
			first = at
		}
		if t := body[0]; len(body) < 11+size || t == 1 || t == 2 || t == 22 {
			return parts, errSlowAggregate
		}
		parts = append(parts, slowMessage{rtmp.Message{Type: rtmp.Type(body[0]), ChunkStream: id,
			Stream: s.messageStreamID, Timestamp: s.timestamp + at - first, Size: size},
			string(body[11 : 11+size])})
		body = body[11+size:]
		body = body[min(4, len(body)):]
	}
	return parts, nil
}

// slowError converts an error of a Decoder to the reference's error.
func slowError(err error) error {
	var limit *rtmp.LimitError
	switch {
	case err == nil || err == io.EOF || err == io.ErrUnexpectedEOF:
		return err
	case errors.As(err, &limit):
		return errSlowLimit
	}
	for text, slow := range map[string]error{
		"rtmp: a message begins in the middle of another one of the same chunk stream":              errSlowNested,
		"rtmp: an aggregate message ends in the middle of a part":                                   errSlowAggregate,
		"rtmp: set chunk size: want 1 to 2147483647 in 4 bytes":                                     errSlowChunkSize,
		"rtmp: an aggregate message has a part that sets the chunk size, aborts or is an aggregate": errSlowAggregate,
	} {
		if err.Error() == text {
			return slow
		}
	}
	return fmt.Errorf("an error that the reference does not know: %w", err)
}
