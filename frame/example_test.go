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
