package frame_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
)

// A variant is a ready-made format: how to make a Decoder and an Encoder for it, and how to write a
// frame by hand. enc is nil if there is no Encoder.
type variant struct {
	name  string
	dec   func(r *millrace.Reader, opts ...frame.Option) *frame.Decoder
	enc   func() *frame.Encoder
	plain func(h frame.Header, payload string) string
}

func fixedVariant(name string, f frame.Encoding, plain func(frame.Header, string) string) variant {
	return variant{name,
		func(r *millrace.Reader, opts ...frame.Option) *frame.Decoder {
			return frame.NewDecoder(r, f, opts...)
		},
		func() *frame.Encoder { return frame.NewEncoder(f) }, plain}
}

func varVariant(name string, f frame.VarEncoding, plain func(frame.Header, string) string) variant {
	return variant{name,
		func(r *millrace.Reader, opts ...frame.Option) *frame.Decoder {
			return frame.NewVarDecoder(r, f, opts...)
		},
		func() *frame.Encoder { return frame.NewVarEncoder(f) }, plain}
}

var variants = []variant{
	fixedVariant("Uint16 BE", frame.Uint16(binary.BigEndian), func(_ frame.Header, s string) string {
		return string([]byte{byte(len(s) >> 8), byte(len(s))}) + s
	}),
	fixedVariant("Uint16 LE", frame.Uint16(binary.LittleEndian),
		func(_ frame.Header, s string) string {
			return string([]byte{byte(len(s)), byte(len(s) >> 8)}) + s
		}),
	fixedVariant("Uint32 BE", frame.Uint32(binary.BigEndian), func(_ frame.Header, s string) string {
		return string([]byte{0, byte(len(s) >> 16), byte(len(s) >> 8), byte(len(s))}) + s
	}),
	fixedVariant("Uint32 LE", frame.Uint32(binary.LittleEndian),
		func(_ frame.Header, s string) string {
			return string([]byte{byte(len(s)), byte(len(s) >> 8), byte(len(s) >> 16), 0}) + s
		}),
	varVariant("Varint", frame.Varint(), func(_ frame.Header, s string) string {
		return string(base128(len(s))) + s
	}),
	varVariant("MQTT", frame.MQTT(), func(h frame.Header, s string) string {
		return string([]byte{byte(h.Kind<<4 | uint32(h.Info))}) + string(base128(len(s))) + s
	}),
	varVariant("RESPBulk", frame.RESPBulk(), func(h frame.Header, s string) string {
		if h.Info == 1 {
			return "$-1\r\n"
		}
		return fmt.Sprintf("$%d\r\n%s", len(s)-2, s)
	}),
}

func base128(n int) (p []byte) {
	for ; n > 127; n /= 128 {
		p = append(p, byte(n%128+128))
	}
	return append(p, byte(n))
}

// randomHeader returns a Header and a payload that f can express.
func (f variant) randomHeader(rnd *rand.Rand) (frame.Header, string) {
	payload := randomBytes(rnd, rnd.IntN(1+rnd.IntN(40_000)))
	switch f.name {
	case "MQTT":
		return frame.Header{Kind: rnd.Uint32N(16), Info: rnd.Uint64N(16), Payload: len(payload)},
			payload
	case "RESPBulk":
		if rnd.IntN(4) == 0 {
			return frame.Header{Info: 1}, ""
		}
		payload += "\r\n"
	}
	return frame.Header{Payload: len(payload)}, payload
}

// TestFormats reads frames that were written by hand, and compares the Encoder's frames with them.
func TestFormats(t *testing.T) {
	for _, f := range variants {
		t.Run(f.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, uint64(len(f.name))))
			var headers []frame.Header
			var frames []string
			for range 40 {
				h, payload := f.randomHeader(rnd)
				headers, frames = append(headers, h), append(frames, f.plain(h, payload))
				checkEncoder(t, f.enc(), h, payload, frames[len(frames)-1])
			}
			all := strings.Join(frames, "")
			for _, src := range []io.Reader{strings.NewReader(all),
				iotest.OneByteReader(strings.NewReader(all)),
				iotest.HalfReader(strings.NewReader(all))} {
				checkDecoder(t, f, src, headers, frames)
			}
			for cut := 1; cut < len(frames[0]) && cut < 20; cut++ {
				r := millrace.NewReader(strings.NewReader(frames[0][:cut]))
				var c millrace.Chain
				if _, err := f.dec(r).Next(&c); err != io.ErrUnexpectedEOF {
					t.Errorf("Next of the first %d bytes = %v", cut, err)
				}
				r.Release()
			}
		})
	}
}

func checkEncoder(t *testing.T, e *frame.Encoder, h frame.Header, payload, want string) {
	t.Helper()
	var out, body millrace.Chain
	defer out.Release()
	body.AppendCopy([]byte(payload))
	if err := e.Append(&out, h, &body); err != nil || string(out.Bytes()) != want {
		t.Fatalf("Append: %.40q, %v, want %.40q", out.Bytes(), err, want)
	}
	s, err := e.Assemble(arena.NewPool(1<<17), h, func(buf arena.Buffer) error {
		_, err := io.WriteString(buf, payload)
		return err
	})
	if err != nil || string(s.Bytes()) != want {
		t.Fatalf("Assemble: %.40q, %v, want %.40q", s.Bytes(), err, want)
	}
	s.Release()
}

func checkDecoder(t *testing.T, f variant, src io.Reader, headers []frame.Header, frames []string) {
	t.Helper()
	r := millrace.NewReader(src)
	defer r.Release()
	d, pool := f.dec(r), arena.NewPool(1<<20)
	for i, want := range frames {
		var c millrace.Chain
		var s arena.Slice
		var h frame.Header
		var err error
		if i%2 == 0 {
			h, err = d.Next(&c)
		} else {
			s, h, err = d.NextInto(pool)
			c.AppendCopy(s.Bytes())
			s.Release()
		}
		if err != nil || h != headers[i] || string(c.Bytes()) != want {
			t.Fatalf("frame %d: %+v, %d bytes, %v, want %+v, %d bytes", i, h, c.Len(), err,
				headers[i], len(want))
		}
		c.Release()
	}
	if _, err := d.Next(new(millrace.Chain)); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestLines(t *testing.T) {
	text := "one\n\ntwo and more\nthree\r\n"
	for _, src := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
		r := millrace.NewReader(src)
		d := frame.NewVarDecoder(r, frame.Lines(13))
		for want := range strings.Lines(text) {
			var c millrace.Chain
			if _, err := d.Next(&c); err != nil || string(c.Bytes()) != want {
				t.Errorf("line %q, %v, want %q", c.Bytes(), err, want)
			}
			c.Release()
		}
		r.Release()
	}
}

// TestBadHeaders checks that each bad header ends the stream with an error, whether its bytes
// arrive at once or one by one.
func TestBadHeaders(t *testing.T) {
	var limit *frame.LimitError
	var header *frame.HeaderError
	for _, test := range []struct {
		f    frame.VarFormat
		in   string
		want any // a string, or a pointer for errors.As
	}{
		{frame.Varint(), strings.Repeat("\xff", 9) + "\x02", "64 bits"},
		{frame.Varint(), strings.Repeat("\xff", 11), &header},
		{frame.Varint(), strings.Repeat("\xff", 9) + "\x01", &limit},
		{frame.Varint(), "\x80\x80\x41", &limit},
		{frame.MQTT(), "\x30\xff\xff\xff\xff\x01", "4 bytes"},
		{frame.MQTT(), "\x30\xff\xff\xff\x7f", &limit},
		{frame.Lines(5), "12345\n", &header},
		{frame.RESPBulk(), "+OK\r\n", "RESP"},
		{frame.RESPBulk(), "$5\n", "RESP"},
		{frame.RESPBulk(), "$-2\r\n", "RESP"},
		{frame.RESPBulk(), "$+5\r\n", "RESP"},
		{frame.RESPBulk(), "$\r\n", "RESP"},
		{frame.RESPBulk(), "$12345678901\r\n", &header},
		{frame.RESPBulk(), "$1234567890\r\n", &limit},
		{frame.RESPBulk(), "$1048575\r\n", &limit},
		{badVar{}, "abc", &header},
	} {
		for _, src := range []io.Reader{strings.NewReader(test.in + "more"),
			iotest.OneByteReader(strings.NewReader(test.in + "more"))} {
			r := millrace.NewReader(src)
			d := frame.NewVarDecoder(r, test.f)
			_, err := d.Next(new(millrace.Chain))
			if text, ok := test.want.(string); ok {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%T %q: %v, want %q", test.f, test.in, err, text)
				}
			} else if !errors.As(err, test.want) {
				t.Errorf("%T %q: %v, want %T", test.f, test.in, err, test.want)
			}
			if _, again := d.Next(new(millrace.Chain)); again != err {
				t.Errorf("%T %q: then %v", test.f, test.in, again)
			}
			r.Release()
		}
	}
}

// badVar returns a size that is larger than the bytes it was given.
type badVar struct{}

func (badVar) MaxHeader() int { return 3 }

func (badVar) ParseVar(p []byte) (frame.Header, int, error) { return frame.Header{}, len(p) + 1, nil }

func TestHeadersThatCannotBeWritten(t *testing.T) {
	for name, err := range map[string]error{
		"Uint16":       second(frame.Uint16(binary.BigEndian).AppendHeader(nil, frame.Header{Payload: 1 << 16})),
		"MQTT":         second(frame.MQTT().AppendHeader(nil, frame.Header{Payload: 1 << 28})),
		"MQTT type":    second(frame.MQTT().AppendHeader(nil, frame.Header{Kind: 16})),
		"MQTT flags":   second(frame.MQTT().AppendHeader(nil, frame.Header{Info: 16})),
		"RESP, no end": second(frame.RESPBulk().AppendHeader(nil, frame.Header{Payload: 1})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if math.MaxInt > math.MaxUint32 {
		f := frame.Uint32(binary.LittleEndian)
		if _, err := f.AppendHeader(nil, frame.Header{Payload: int(uint64(1) << 32 & math.MaxInt)}); err == nil {
			t.Error("Uint32: no error for 4 GiB")
		}
	}
}

func second[T any](_ T, err error) error { return err }

// FuzzFormats checks that each format reads the same frames from any bytes, whether they arrive at
// once or one by one, and that the frames together are the bytes.
func FuzzFormats(f *testing.F) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for i, v := range variants {
		s := ""
		for range 3 {
			s += v.plain(frame.Header{}, randomBytes(rnd, rnd.IntN(20))+"\r\n")
		}
		f.Add(byte(i), s)
	}
	f.Add(byte(len(variants)), "one\ntwo\n")
	f.Fuzz(func(t *testing.T, which byte, in string) {
		if len(in) > 1<<12 {
			return
		}
		dec := func(r *millrace.Reader, opts ...frame.Option) *frame.Decoder {
			return frame.NewVarDecoder(r, frame.Lines(100), opts...)
		}
		if i := int(which) % (len(variants) + 1); i < len(variants) {
			dec = variants[i].dec
		}
		read := func(src io.Reader) (frames []string, err error) {
			r := millrace.NewReader(src)
			defer r.Release()
			for d := dec(r, frame.MaxPayload(1<<12)); err == nil; {
				var c millrace.Chain
				if _, err = d.Next(&c); err == nil {
					frames = append(frames, string(c.Bytes()))
				}
				c.Release()
			}
			return frames, err
		}
		one, err := read(strings.NewReader(in))
		two, err2 := read(iotest.OneByteReader(strings.NewReader(in)))
		if fmt.Sprint(one, err) != fmt.Sprint(two, err2) {
			t.Errorf("at once %q, %v; one by one %q, %v", one, err, two, err2)
		}
		if all := strings.Join(one, ""); !strings.HasPrefix(in, all) || err == io.EOF && all != in {
			t.Errorf("frames %q of %q", one, in)
		}
	})
}
