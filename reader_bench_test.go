package millrace_test

import (
	"bufio"
	"fmt"
	"io"
	"testing"

	"github.com/millrace-io/millrace"
)

// A burst gives 64 to 2048 bytes a Read, as segments come from a network, and costs next to nothing itself.
type burst struct {
	state uint64
	data  [4096]byte
}

func newBurst() *burst {
	b := &burst{state: 88172645463325252}
	for i := range b.data {
		b.data[i] = byte(7 * i)
	}
	return b
}

func (b *burst) Read(p []byte) (int, error) {
	b.state ^= b.state << 13
	b.state ^= b.state >> 7
	b.state ^= b.state << 17
	return copy(p, b.data[:64+b.state%1985]), nil
}

// sink keeps what is read from being optimised away.
var sink byte

func touch(p []byte) { sink ^= p[0] }

// BenchmarkReader reads packets of three sizes in the ways that there are to look at them. "bufio, copy" is what most
// programs do; "bufio, Peek" cannot keep a packet; "ReadChain" can.
func BenchmarkReader(b *testing.B) {
	for _, size := range []int{64, 1 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("N%d", size), func(b *testing.B) {
			b.Run("bufio, copy", func(b *testing.B) {
				r := bufio.NewReader(newBurst())
				measure(b, size, func() {
					p := make([]byte, size)
					io.ReadFull(r, p)
					touch(p)
				})
			})
			b.Run("bufio, Peek", func(b *testing.B) {
				r := bufio.NewReaderSize(newBurst(), max(4096, size))
				measure(b, size, func() {
					p, _ := r.Peek(size)
					touch(p)
					r.Discard(size)
				})
			})
			b.Run("Peek", func(b *testing.B) {
				r := millrace.NewReaderSize(newBurst(), max(4096, size))
				defer r.Release()
				measure(b, size, func() {
					p, _ := r.Peek(size)
					touch(p)
					r.Discard(size)
				})
			})
			b.Run("ReadRange", func(b *testing.B) {
				r := millrace.NewReader(newBurst())
				defer r.Release()
				measure(b, size, func() { r.ReadRange(size, touch) })
			})
			b.Run("ReadChain", func(b *testing.B) {
				r := millrace.NewReader(newBurst())
				defer r.Release()
				var c millrace.Chain
				measure(b, size, func() {
					r.ReadChain(&c, size)
					for p := range c.All() {
						touch(p)
					}
					c.Release()
				})
			})
			b.Run("ReadChain, the last 64 kept", func(b *testing.B) { benchmarkKept(b, size) })
		})
	}
}

func benchmarkKept(b *testing.B, size int) {
	r := millrace.NewReader(newBurst())
	defer r.Release()
	var kept [64]millrace.Chain
	i := 0
	measure(b, size, func() {
		kept[i%len(kept)].Release()
		r.ReadChain(&kept[i%len(kept)], size)
		i++
	})
	for i := range kept {
		kept[i].Release()
	}
}

// measure runs f, which handles size bytes.
func measure(b *testing.B, size int, f func()) {
	b.Helper()
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

// BenchmarkReaderBytes reads a byte at a time, which a text protocol's parser does.
func BenchmarkReaderBytes(b *testing.B) {
	b.Run("bufio", func(b *testing.B) {
		r := bufio.NewReader(newBurst())
		measure(b, 1, func() { c, _ := r.ReadByte(); sink ^= c })
	})
	b.Run("millrace", func(b *testing.B) {
		r := millrace.NewReader(newBurst())
		defer r.Release()
		measure(b, 1, func() { c, _ := r.ReadByte(); sink ^= c })
	})
}

// BenchmarkReaderLines reads lines of about 30 bytes.
func BenchmarkReaderLines(b *testing.B) {
	src := newBurst()
	for i := range src.data {
		if src.data[i] = 'a'; i%30 == 29 {
			src.data[i] = '\n'
		}
	}
	b.Run("bufio", func(b *testing.B) {
		r := bufio.NewReader(src)
		measure(b, 30, func() { p, _ := r.ReadSlice('\n'); touch(p) })
	})
	b.Run("millrace", func(b *testing.B) {
		r := millrace.NewReader(src)
		defer r.Release()
		measure(b, 30, func() { p, _ := r.ReadSlice('\n'); touch(p) })
	})
}

// BenchmarkReaderIntegers reads the five fields of an FLV tag's header.
func BenchmarkReaderIntegers(b *testing.B) {
	r := millrace.NewReader(newBurst())
	defer r.Release()
	measure(b, 11, func() {
		for _, n := range [...]int{1, 3, 3, 1, 3} {
			v, _ := r.ReadBE(n)
			sink ^= byte(v)
		}
	})
}
