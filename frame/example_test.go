package frame_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
)

// A note begins with three bytes: its kind and its length.
type note struct{}

func (note) HeaderSize() int { return 3 }

func (note) Parse(p []byte) (frame.Header, error) {
	return frame.Header{Kind: uint32(p[0]), Payload: int(binary.BigEndian.Uint16(p[1:]))}, nil
}

func (note) AppendHeader(dst []byte, h frame.Header) ([]byte, error) {
	if h.Payload > 1<<16-1 {
		return dst, errors.New("note too long")
	}
	return binary.BigEndian.AppendUint16(append(dst, byte(h.Kind)), uint16(h.Payload)), nil
}

// A relay passes frames on unchanged, without copying them.
func ExampleDecoder_Next() {
	r := millrace.NewReader(strings.NewReader("a\x00\x05hellob\x00\x03you"))
	defer r.Release()
	d := frame.NewDecoder(r, note{})
	for {
		var c millrace.Chain
		h, err := d.Next(&c)
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("kind %c, %d bytes of payload, frame %q\n", h.Kind, h.Payload, c.Bytes())
		c.Release()
	}
	// Output:
	// kind a, 5 bytes of payload, frame "a\x00\x05hello"
	// kind b, 3 bytes of payload, frame "b\x00\x03you"
}

// Frames are passed to workers, which own them. Their memory is used again.
func ExampleDecoder_NextInto() {
	r := millrace.NewReader(strings.NewReader("a\x00\x05helloa\x00\x03youa\xff\xff..."))
	defer r.Release()
	d := frame.NewDecoder(r, note{}, frame.MaxKind('a', 1000))
	pool := arena.NewPool(64 << 10)

	var workers sync.WaitGroup
	for i := 0; ; i++ {
		s, h, err := d.NextInto(pool)
		if err != nil {
			workers.Wait()
			fmt.Println(err)
			return
		}
		work := func() {
			defer s.Release()
			payload := s.Bytes()[s.Len()-h.Payload:]
			fmt.Printf("frame %d: %s\n", i, payload)
		}
		workers.Go(work)
		workers.Wait() // for the same output every time
	}
	// Output:
	// frame 0: hello
	// frame 1: you
	// frame: payload of 65535 bytes announced in a frame of kind 0x61, limit 1000
}

// A frame is built in the memory from which it is sent, or around a shared payload.
func ExampleEncoder() {
	e := frame.NewEncoder(note{})

	pool := arena.NewPool(64 << 10)
	s, err := e.Assemble(pool, frame.Header{Kind: 'a'}, func(buf arena.Buffer) error {
		_, err := fmt.Fprintf(buf, "%d bottles", 99)
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n", s.Bytes())
	s.Release()

	var payload, out millrace.Chain
	defer out.Release()
	payload.AppendCopy([]byte("of beer"))
	if err := e.Append(&out, frame.Header{Kind: 'b'}, &payload); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%q\n", out.Bytes())
	// Output:
	// "a\x00\n99 bottles"
	// "b\x00\aof beer"
}

// Messages with a length of four bytes, as many protocols of a company's own have.
func ExampleUint32() {
	r := millrace.NewReader(strings.NewReader("\x00\x00\x00\x05hello"))
	defer r.Release()
	var c millrace.Chain
	defer c.Release()
	_, err := frame.NewDecoder(r, frame.Uint32(binary.BigEndian)).Next(&c)
	fmt.Printf("%q %v\n", c.Bytes(), err)
	// Output: "\x00\x00\x00\x05hello" <nil>
}

// A length of two bytes, in the order of the machine that sends it.
func ExampleUint16() {
	e := frame.NewEncoder(frame.Uint16(binary.LittleEndian))
	var out, payload millrace.Chain
	defer out.Release()
	payload.AppendCopy([]byte("hello"))
	err := e.Append(&out, frame.Header{}, &payload)
	fmt.Printf("%q %v\n", out.Bytes(), err)
	// Output: "\x05\x00hello" <nil>
}

// A stream of length-delimited Protocol Buffers. The payload is passed to proto.Unmarshal.
func ExampleVarint() {
	r := millrace.NewReader(strings.NewReader("\x02\x08\x01\x03\x12\x01a"))
	defer r.Release()
	d := frame.NewVarDecoder(r, frame.Varint(), frame.MaxPayload(64<<10))
	for {
		var c millrace.Chain
		h, err := d.Next(&c)
		if err == io.EOF {
			break
		}
		c.Discard(c.Len() - h.Payload) // the header
		fmt.Printf("%q\n", c.Bytes())
		c.Release()
	}
	// Output:
	// "\b\x01"
	// "\x12\x01a"
}

// An MQTT broker knows the packet type and its flags, and passes the packet on without copying it.
func ExampleMQTT() {
	r := millrace.NewReader(strings.NewReader("\x31\x09\x00\x04roomhot"))
	defer r.Release()
	var c millrace.Chain
	defer c.Release()
	h, err := frame.NewVarDecoder(r, frame.MQTT()).Next(&c)
	fmt.Println("type", h.Kind, "retained", h.Info&1 == 1, &c, err)
	// Output: type 3 retained true 11 bytes in 1 pieces <nil>
}

// A line may have 100 bytes at most.
func ExampleLines() {
	r := millrace.NewReader(strings.NewReader("HELO\n" + strings.Repeat("x", 1000)))
	defer r.Release()
	d := frame.NewVarDecoder(r, frame.Lines(100))
	for range 2 {
		var c millrace.Chain
		_, err := d.Next(&c)
		fmt.Printf("%q %v\n", c.Bytes(), err)
		c.Release()
	}
	// Output:
	// "HELO\n" <nil>
	// "" frame: no complete header in 100 bytes, the limit
}

// The bulk strings of a Redis command, after its "*2\r\n".
func ExampleRESPBulk() {
	r := millrace.NewReader(strings.NewReader("$3\r\nGET\r\n$4\r\nname\r\n"))
	defer r.Release()
	d := frame.NewVarDecoder(r, frame.RESPBulk())
	for range 2 {
		var c millrace.Chain
		h, err := d.Next(&c)
		c.Discard(c.Len() - h.Payload)
		fmt.Printf("%q %v\n", c.Bytes()[:c.Len()-2], err)
		c.Release()
	}
	// Output:
	// "GET" <nil>
	// "name" <nil>
}
