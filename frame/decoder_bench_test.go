package frame_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/arena"
	"github.com/millrace-io/millrace/frame"
)

var benchSizes = []int{100, 1 << 10, 16 << 10, 256 << 10}

// loop is a stream that never ends: the same frames again and again.
type loop struct {
	frames string
	at     int
}

func (l *loop) Read(p []byte) (n int, err error) {
	for n < len(p) {
		m := copy(p[n:], l.frames[l.at:])
		l.at = (l.at + m) % len(l.frames)
		n += m
	}
	return n, nil
}

// lengthOf reads a header by hand.
func lengthOf(p []byte) int { return int(binary.BigEndian.Uint32(p) & recordMost) }

// BenchmarkDecode compares with what one would write for this one format, without limits, deadlines or grants.
func BenchmarkDecode(b *testing.B) {
	for _, size := range benchSizes {
		run := func(name string, setUp func(b *testing.B, src io.Reader) (next func() error)) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				next := setUp(b, &loop{frames: rawFrame(1, strings.Repeat("x", size))})
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if err := next(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("Next", benchNext)
		run("chain-by-hand", benchChainByHand)
		run("NextInto", benchNextInto)
		run("arena-by-hand", benchArenaByHand)
		run("bufio-and-make", benchBufio)
	}
}

func newReader(b *testing.B, src io.Reader) *millrace.Reader {
	r := millrace.NewReader(src)
	b.Cleanup(r.Release)
	return r
}

func benchNext(b *testing.B, src io.Reader) func() error {
	d := frame.NewDecoder(newReader(b, src), record{})
	var c millrace.Chain
	return func() error {
		_, err := d.Next(&c)
		c.Release()
		return err
	}
}

func benchChainByHand(b *testing.B, src io.Reader) func() error {
	r := newReader(b, src)
	var c millrace.Chain
	return func() error {
		p, err := r.Peek(recordSize)
		if err != nil {
			return err
		}
		err = r.ReadChain(&c, recordSize+lengthOf(p))
		c.Release()
		return err
	}
}

func benchNextInto(b *testing.B, src io.Reader) func() error {
	d := frame.NewDecoder(newReader(b, src), record{})
	pool := arena.NewPool(1 << 20)
	return func() error {
		s, _, err := d.NextInto(pool)
		s.Release()
		return err
	}
}

func benchArenaByHand(b *testing.B, src io.Reader) func() error {
	r := newReader(b, src)
	pool := arena.NewPool(1 << 20)
	return func() error {
		p, err := r.Peek(recordSize)
		if err != nil {
			return err
		}
		_, err = io.ReadFull(r, pool.Writable(recordSize+lengthOf(p)))
		s := pool.Take()
		s.Release()
		return err
	}
}

func benchBufio(_ *testing.B, src io.Reader) func() error {
	r := bufio.NewReader(src)
	return func() error {
		p, err := r.Peek(recordSize)
		if err != nil {
			return err
		}
		_, err = io.ReadFull(r, make([]byte, recordSize+lengthOf(p)))
		return err
	}
}

// BenchmarkEncode compares with building the frame by hand.
func BenchmarkEncode(b *testing.B) {
	for _, size := range benchSizes {
		payload := []byte(strings.Repeat("x", size))
		run := func(name string, build func()) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					build()
				}
			})
		}
		e := frame.NewEncoder(record{})
		pool := arena.NewPool(1 << 20)
		run("Assemble", func() {
			s, _ := e.Assemble(pool, frame.Header{Kind: 1}, func(buf arena.Buffer) error {
				_, err := buf.Write(payload)
				return err
			})
			s.Release()
		})
		run("arena-by-hand", func() {
			p := pool.Writable(recordSize + len(payload))
			binary.BigEndian.PutUint32(p, 1<<24|uint32(len(payload)))
			copy(p[recordSize:], payload)
			s := pool.Take()
			s.Release()
		})
		shared := chainOf(string(payload))
		b.Cleanup(shared.Release)
		var body, out millrace.Chain
		run("Append", func() {
			shared.Clone(&body)
			_ = e.Append(&out, frame.Header{Kind: 1}, &body)
			out.Release()
		})
		run("chain-by-hand", func() {
			var head [recordSize]byte
			binary.BigEndian.PutUint32(head[:], 1<<24|uint32(len(payload)))
			out.AppendCopy(head[:])
			shared.Clone(&out)
			out.Release()
		})
	}
}
