//go:build !race && !invariants

package stackbuf_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/alloctest"
	"github.com/millrace-io/millrace/stackbuf"
)

// wantAllocs checks that each call of f allocates want times after a warm-up.
func wantAllocs(t *testing.T, what string, want float64, f func()) {
	t.Helper()
	for range 10 {
		f()
	}
	hundred := func() {
		for range 100 {
			f()
		}
	}
	if n := alloctest.Count(100*want, hundred); n != 100*want {
		t.Errorf("%s: %v allocations in a hundred calls, want %v", what, n, 100*want)
	}
}

var (
	sink      string
	sinkBytes []byte
	longBytes = []byte(long[:1000])
)

func TestUpTo64BytesAllocateNothing(t *testing.T) {
	for _, n := range []int{1, 10, 63, 64} {
		s := text(n)
		p, src := []byte(s), strings.NewReader(s)
		unknown, boxed := only{src}, any(s)
		for by, f := range map[string]func(){
			"Write":       func() { var b stackbuf.Buffer; b.Write(p) },
			"WriteString": func() { var b stackbuf.Buffer; b.WriteString(s) },
			"Grow":        func() { var b stackbuf.Buffer; b.Grow(n) },
			"AvailableBuffer": func() {
				var b stackbuf.Buffer
				b.Write(append(b.AvailableBuffer(), s...))
			},
			"NewBufferString": func() { b := stackbuf.NewBufferString(s); b.Truncate(1) },
			"ReadFrom": func() {
				var b stackbuf.Buffer
				src.Seek(0, io.SeekStart)
				b.ReadFrom(src)
			},
			"ReadFrom, unknown": func() {
				var b stackbuf.Buffer
				src.Seek(0, io.SeekStart)
				b.ReadFrom(&unknown)
			},
			"Printf": func() { var b stackbuf.Buffer; b.Printf("%s", boxed) },
			"WriteByte": func() {
				var b stackbuf.Buffer
				for _, c := range p {
					b.WriteByte(c)
				}
			},
			"WriteRune": func() {
				var b stackbuf.Buffer
				for range n / 2 {
					b.WriteRune('é')
				}
			},
		} {
			wantAllocs(t, strconv.Itoa(n)+" bytes by "+by, 0, f)
		}
	}
}

func TestStringAllocatesOnce(t *testing.T) {
	for _, n := range []int{0, 5, 31, 32, 33, 64} {
		wantAllocs(t, fmt.Sprintf("String of %d", n), float64(min(n, 1)), func() {
			var b stackbuf.Buffer
			b.WriteString(long[:n])
			sink = b.String()
		})
	}
	wantAllocs(t, "String that is only looked at", 0, func() {
		var b stackbuf.Buffer
		b.WriteString(long[:20])
		if b.String() == long {
			t.Error("the string is not the long one")
		}
	})
}

func TestReadingAllocatesNothing(t *testing.T) {
	p := make([]byte, 10)
	for _, s := range []string{text(64), text(1000)} {
		b := stackbuf.NewBufferString(s)
		wantAllocs(t, "Read, Peek, Next, ReadByte, ReadRune and what is taken back", 0, func() {
			c := *b
			c.Read(p)
			c.Peek(10)
			c.Next(10)
			c.ReadByte()
			c.UnreadByte()
			c.ReadRune()
			c.UnreadRune()
			c.Truncate(3)
			c.Reset()
		})
		wantAllocs(t, "ReadBytes", 1, func() {
			c := *b
			sinkBytes, _ = c.ReadBytes('Z')
		})
		wantAllocs(t, "ReadString", 1, func() {
			c := *b
			sink, _ = c.ReadString('Z')
		})
		wantAllocs(t, "Bytes used here", 0, func() {
			c := *b
			if bytes.IndexByte(c.Bytes(), '!') >= 0 {
				t.Error("a byte that was never written was found")
			}
		})
	}
}

// A Buffer on the stack does not force anything else to the heap.
func TestCopiesAllocateNothing(t *testing.T) {
	wantAllocs(t, "copies", 0, func() {
		var b stackbuf.Buffer
		b.WriteString("contents")
		c := b
		c.WriteByte('1')
		b = byValue(c)
		b.WriteByte('2')
	})
}

//go:noinline
func byValue(b stackbuf.Buffer) stackbuf.Buffer { return b }

func TestWriteToAllocatesNothing(t *testing.T) {
	buffered := bufio.NewWriter(io.Discard)
	var copied bytes.Buffer
	copied.Grow(1000)
	for _, s := range []string{text(1), text(64), text(1000)} {
		full := stackbuf.NewBufferString(s)
		wantAllocs(t, "WriteTo", 0, func() {
			b := *full
			b.WriteTo(io.Discard)
		})
		wantAllocs(t, "WriteTo a bufio.Writer", 0, func() {
			b := *full
			b.WriteTo(buffered)
		})
		wantAllocs(t, "WriteTo a bytes.Buffer", 0, func() {
			b := *full
			copied.Reset()
			b.WriteTo(&copied)
		})
	}
}

// Contents of more than 64 bytes cost one allocation of a fitting size.
func TestASpillAllocatesOnce(t *testing.T) {
	for _, n := range []int{65, 100, 1000} {
		wantAllocs(t, "Write", 1, func() {
			var b stackbuf.Buffer
			b.Write(longBytes[:n])
		})
		wantAllocs(t, "WriteString", 1, func() {
			var b stackbuf.Buffer
			b.WriteString(long[:n])
		})
		wantAllocs(t, "NewBufferString", 1, func() {
			b := stackbuf.NewBufferString(long[:n])
			b.Truncate(1)
		})
		wantAllocs(t, "Grow and what was announced", 1, func() {
			var b stackbuf.Buffer
			b.Grow(n)
			for range n {
				b.WriteByte('x')
			}
		})
	}
}

// Reset and Truncate keep the memory. A queue of constant length does not grow.
func TestMemoryIsUsedAgain(t *testing.T) {
	var b stackbuf.Buffer
	wantAllocs(t, "Reset", 0, func() {
		b.WriteString(long[:1000])
		b.Reset()
	})
	wantAllocs(t, "Truncate", 0, func() {
		b.WriteString(long[:1000])
		b.Truncate(0)
	})
	wantAllocs(t, "WriteTo", 0, func() {
		b.WriteString(long[:1000])
		b.WriteTo(io.Discard)
	})
	for _, held := range []int{0, 1, 50, 96, 500} {
		for _, n := range []int{1, 50, 97, 600} {
			what := "a queue of " + strconv.Itoa(held) + " written by " + strconv.Itoa(n)
			var b stackbuf.Buffer
			b.WriteString(long[:held])
			for range 50 { // until it has its final size
				b.WriteString(long[:n])
				b.Next(n)
			}
			wantAllocs(t, what, 0, func() {
				b.WriteString(long[:n])
				b.Next(n)
			})
			src := strings.NewReader("")
			wantAllocs(t, what+" with ReadFrom", 0, func() {
				src.Reset(long[:n])
				b.ReadFrom(src)
				b.Next(n)
			})
		}
	}
}

// Buffers on a deep stack allocate nothing either.
func TestDeepAllocatesNothing(t *testing.T) {
	wantAllocs(t, "deep", 0, func() { deep(10, 1, [200]byte{}) })
}

// An again is a source that can be read repeatedly.
type again struct {
	name  string
	src   io.Reader
	start func()
}

// knownAgain returns sources that report their size, n.
func knownAgain(n int) []again {
	s := text(n)
	asBytes, asString, inner := bytes.NewReader([]byte(s)), strings.NewReader(s),
		strings.NewReader(s)
	limited := &io.LimitedReader{R: inner}
	var buffer stackbuf.Buffer
	all := []again{
		{"bytes.Reader", asBytes, func() { asBytes.Seek(0, io.SeekStart) }},
		{"strings.Reader", asString, func() { asString.Seek(0, io.SeekStart) }},
		{"limit", limited, func() { inner.Seek(0, io.SeekStart); limited.N = 1 << 40 }},
		{"Buffer", &buffer, func() { buffer.Reset(); buffer.WriteString(s) }},
		{"Len", &withLen{inner, n}, func() { inner.Seek(0, io.SeekStart) }},
	}
	return all
}

// If the source reports its size, memory is allocated once.
func TestReadFromAllocatesOnce(t *testing.T) {
	for _, n := range []int{65, 100, 512, 4096, 5000, 60_000} {
		for _, held := range []int{0, 10, 64} {
			for _, src := range knownAgain(n) {
				wantAllocs(t, fmt.Sprintf("%s, %d behind %d", src.name, n, held), 1, func() {
					var b stackbuf.Buffer
					b.WriteString(long[:held])
					src.start()
					b.ReadFrom(src.src)
				})
			}
		}
	}
}

// ReadFrom uses the memory that the Buffer already has.
func TestReadFromIntoTheSameMemoryAllocatesNothing(t *testing.T) {
	for _, n := range []int{1, 65, 5000} {
		for _, src := range append(knownAgain(n), unknownAgain(n)) {
			var b stackbuf.Buffer
			wantAllocs(t, fmt.Sprintf("%s, %d", src.name, n), 0, func() {
				b.Reset()
				src.start()
				b.ReadFrom(src.src)
			})
		}
	}
}

func unknownAgain(n int) again {
	src := strings.NewReader(text(n))
	return again{"unknown", &only{src}, func() { src.Seek(0, io.SeekStart) }}
}
