package sv2_test

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"net"
	"strings"
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
