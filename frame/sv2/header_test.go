package sv2_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
)

// Values that do not fit into a header are refused, not truncated.
func TestHeadersThatCannotBe(t *testing.T) {
	for _, tt := range []struct {
		h    frame.Header
		want string
	}{
		{sv2.Header{Length: 1 << 24}.Frame(),
			"frame: payload of 16777216 bytes announced in a frame of kind 0x0, limit 16777215"},
		{sv2.Header{Length: -1}.Frame(), "frame: payload of -1 bytes announced in a frame of kind 0x0, limit 16777215"},
		{frame.Header{Kind: 1 << 23}, "sv2: kind 0x800000 has more than the 23 bits of an extension and a message type"},
		{frame.Header{Kind: 1<<32 - 1}, "sv2: kind 0xffffffff has more than the 23 bits of an extension and a message type"},
	} {
		got, err := sv2.Format{}.AppendHeader([]byte("before"), tt.h)
		if string(got) != "before" || err == nil || err.Error() != tt.want {
			t.Errorf("%+v: %q, %v, want %s and nothing added", tt.h, got, err, tt.want)
		}
	}
	if _, err := (sv2.Format{}).AppendHeader(nil, frame.Header{Kind: 1<<23 - 1}); err != nil {
		t.Error(err)
	}
	want := "sv2: extension type 0x8001 has more than 15 bits; the channel bit is Channel"
	got, err := sv2.Header{ExtensionType: 0x8001}.Append([]byte("before"))
	if string(got) != "before" || err == nil || err.Error() != want {
		t.Errorf("%q, %v, want %s and nothing added", got, err, want)
	}
}

func TestChannelID(t *testing.T) {
	channel := sv2.Header{Channel: true}
	for _, tt := range []struct {
		h       sv2.Header
		payload string
		id      uint32
		ok      bool
	}{
		{channel, "\x04\x03\x02\x01rest", 0x01020304, true},
		{channel, "\x04\x03\x02\x01", 0x01020304, true},
		{channel, "\x04\x03\x02", 0, false},
		{sv2.Header{}, "\x04\x03\x02\x01", 0, false},
	} {
		if id, ok := tt.h.ChannelID([]byte(tt.payload)); id != tt.id || ok != tt.ok {
			t.Errorf("%+v, %q: %#x, %v, want %#x, %v", tt.h, tt.payload, id, ok, tt.id, tt.ok)
		}
	}
}

// A limit for a kind of message applies with and without a channel, and to no other extension.
func TestKinds(t *testing.T) {
	message := sv2.Header{MessageType: 0x15}
	for _, tt := range []struct {
		h       sv2.Header
		refused bool
	}{
		{message, true},
		{sv2.Header{MessageType: 0x15, Channel: true}, true},
		{sv2.Header{MessageType: 0x16}, false},
		{sv2.Header{MessageType: 0x15, ExtensionType: 1}, false},
	} {
		tt.h.Length = 5
		raw, _ := tt.h.Append(nil)
		r := millrace.NewReader(strings.NewReader(string(raw) + "12345"))
		s, f, err := frame.NewDecoder(r, sv2.Format{},
			frame.MaxKind(message.Kind(), 4)).NextInto(new(arena.Heap))
		var limit *frame.LimitError
		if tt.refused != errors.As(err, &limit) || !tt.refused &&
			(sv2.HeaderOf(f) != tt.h || s.Len() != 11) {
			t.Errorf("%+v: %+v, %v, want the header, or a LimitError: %v", tt.h, f, err, tt.refused)
		}
		r.Release()
	}
}

// slowMessage is the reference's form of a message.
type slowMessage struct {
	sv2.Header
	payload string
}

// slowParse is the reference: it has the complete stream.
func slowParse(b string) (messages []slowMessage, err error) {
	for len(b) > 0 {
		if len(b) < 6 {
			return messages, io.ErrUnexpectedEOF
		}
		h := sv2.Header{
			ExtensionType: uint16(b[0]) + 256*uint16(b[1]%128),
			Channel:       b[1] > 127,
			MessageType:   b[2],
			Length:        int(b[3]) + 256*(int(b[4])+256*int(b[5])),
		}
		if b = b[6:]; len(b) < h.Length {
			return messages, io.ErrUnexpectedEOF
		}
		messages = append(messages, slowMessage{h, b[:h.Length]})
		b = b[h.Length:]
	}
	return messages, io.EOF
}

// buildAll is the inverse of slowParse.
func buildAll(messages []slowMessage) string {
	var b []byte
	for _, m := range messages {
		b, _ = m.Append(b)
		b = append(b, m.payload...)
	}
	return string(b)
}

func randomMessages(rnd *rand.Rand, n, most int) (messages []slowMessage) {
	for range n {
		p := make([]byte, rnd.IntN(most))
		for i := range p {
			p[i] = byte(rnd.Uint32())
		}
		messages = append(messages, slowMessage{sv2.Header{
			ExtensionType: uint16(rnd.IntN(1 << 15)),
			Channel:       rnd.IntN(2) == 0,
			MessageType:   uint8(rnd.IntN(256)),
			Length:        len(p),
		}, string(p)})
	}
	return messages
}

func decodePlain(rnd *rand.Rand, d *frame.Decoder) (got []slowMessage, err error) {
	pool := arena.NewPool(1 << 14)
	for {
		if rnd.IntN(2) == 0 {
			var c millrace.Chain
			f, err := d.Next(&c)
			if err != nil {
				return got, err
			}
			got = append(got, slowMessage{sv2.HeaderOf(f), string(c.Bytes()[sv2.HeaderSize:])})
			c.Release()
			continue
		}
		s, f, err := d.NextInto(pool)
		if err != nil {
			return got, err
		}
		got = append(got, slowMessage{sv2.HeaderOf(f), string(s.Bytes()[sv2.HeaderSize:])})
		s.Release()
	}
}
