package sv2_test

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
	"github.com/millrace-io/millrace/frame/sv2"
)

// A proxy that passes unencrypted messages on reads their headers and copies nothing.
func ExampleFormat() {
	stream := "\x00\x00\x01\x06\x00\x00\x02\x00\x00\x00\x00\x00" + // SetupConnection.Success
		"\x00\x80\x1f\x08\x00\x00\x07\x00\x00\x00\x2a\x00\x00\x00" // a message for channel 7
	r := millrace.NewReader(strings.NewReader(stream))
	defer r.Release()
	d := frame.NewDecoder(r, sv2.Format{}, frame.MaxPayload(64<<10))
	for {
		var c millrace.Chain
		f, err := d.Next(&c)
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		h := sv2.HeaderOf(f)
		id, _ := h.ChannelID(c.Bytes()[sv2.HeaderSize:])
		fmt.Printf("type %#02x, %d bytes, channel %v %d\n", h.MessageType, h.Length, h.Channel, id)
		c.Release()
	}
	// Output:
	// type 0x01, 6 bytes, channel false 0
	// type 0x1f, 8 bytes, channel true 7
}

// Messages are encrypted where they are written, and decrypted where they arrive. Stratum V2 uses
// chacha20poly1305.New(key), of golang.org/x/crypto, with the keys from the handshake. This example
// uses AES-GCM, because the standard library has it.
func ExampleSealer() {
	block, _ := aes.NewCipher([]byte("a key of 16 byte"))
	aead, _ := cipher.NewGCM(block)
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		sealer, pool := sv2.NewSealer(aead), arena.NewPool(1<<20)
		for _, text := range []string{"the first", "and the second"} {
			s, err := sealer.Seal(pool, sv2.Header{MessageType: 0x1a},
				func(buf arena.Buffer) error {
					_, err := io.WriteString(buf, text)
					return err
				})
			if err != nil {
				return
			}
			_, _ = there.Write(s.Bytes())
			s.Release()
		}
	}()

	r := millrace.NewReader(here)
	defer r.Release()
	opener, pool := sv2.NewOpener(r, aead, frame.Deadlines(here, time.Second, time.Minute)),
		arena.NewPool(1<<20)
	for {
		s, h, err := opener.NextInto(pool)
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("type %#02x: %s\n", h.MessageType, s.Bytes()[sv2.HeaderSize:])
		s.Release()
	}
	// Output:
	// type 0x1a: the first
	// type 0x1a: and the second
}

// Thousands of connections share a few arenas. While a connection waits in Peek, it holds no arena,
// and over TCP the Reader holds no memory either.
func ExampleOpener_idle() {
	arenas := sync.Pool{New: func() any { return arena.NewPool(4 << 10) }}
	serve := func(conn net.Conn, aead cipher.AEAD, handle func(message []byte)) error {
		r := millrace.NewReader(conn)
		defer r.Release()
		opener := sv2.NewOpener(r, aead, frame.MaxPayload(1<<10),
			frame.Deadlines(conn, time.Second, time.Second)) // a slow peer holds an arena this long
		next := func() error {
			if _, err := r.Peek(1); err != nil {
				return err
			}
			pool := arenas.Get().(*arena.Pool)
			defer arenas.Put(pool)
			s, _, err := opener.NextInto(pool)
			if err != nil {
				return err
			}
			defer s.Release()
			handle(s.Bytes()[sv2.HeaderSize:])
			return nil
		}
		for {
			if err := next(); err != nil {
				return err
			}
		}
	}

	block, _ := aes.NewCipher([]byte("a key of 16 byte"))
	aead, _ := cipher.NewGCM(block)
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		s, err := sv2.NewSealer(aead).Seal(new(arena.Heap), sv2.Header{MessageType: 0x1a},
			func(buf arena.Buffer) error {
				_, err := io.WriteString(buf, "a share")
				return err
			})
		if err == nil {
			_, _ = there.Write(s.Bytes())
		}
	}()
	err := serve(here, aead, func(message []byte) { fmt.Printf("%s\n", message) })
	fmt.Println(err)
	// Output:
	// a share
	// EOF
}

// A millrace.Writer joins small frames to one write. It holds no memory after Flush.
func ExampleSealer_batch() {
	block, _ := aes.NewCipher([]byte("a key of 16 byte"))
	aead, _ := cipher.NewGCM(block)
	sealer, pool := sv2.NewSealer(aead), arena.NewPool(4<<10)
	conn := writeFunc(func(p []byte) (int, error) {
		fmt.Printf("a write of %d bytes\n", len(p))
		return len(p), nil
	})
	w := millrace.NewWriter(conn)
	defer w.Release()
	for _, text := range []string{"new job", "new target", "your shares"} {
		s, err := sealer.Seal(pool, sv2.Header{MessageType: 0x1f},
			func(buf arena.Buffer) error {
				_, err := io.WriteString(buf, text)
				return err
			})
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = w.Write(s.Bytes()) // Flush returns the error
		s.Release()
	}
	fmt.Println(w.Flush())
	// Output:
	// a write of 142 bytes
	// <nil>
}

type writeFunc func(p []byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }
