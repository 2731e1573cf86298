//go:build !race && !invariants

package stackbuf_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

// An again is a source that can be read once more.
type again struct {
	name  string
	src   io.Reader
	start func()
}

// knownAgain tell their size, n.
func knownAgain(n int) []again {
	s := text(n)
	asBytes, asString, inner := bytes.NewReader([]byte(s)), strings.NewReader(s), strings.NewReader(s)
	limited := &io.LimitedReader{R: inner}
	section := io.NewSectionReader(asString, 0, int64(n))
	var buffer stackbuf.Buffer
	all := []again{
		{"bytes.Reader", asBytes, func() { asBytes.Seek(0, io.SeekStart) }},
		{"strings.Reader", asString, func() { asString.Seek(0, io.SeekStart) }},
		{"limit", limited, func() { inner.Seek(0, io.SeekStart); limited.N = 1 << 40 }},
		{"Buffer", &buffer, func() { buffer.Reset(); buffer.WriteString(s) }},
		{"Len", &withLen{inner, n}, func() { inner.Seek(0, io.SeekStart) }},
		{"Size", &withSize{inner, int64(n)}, func() { inner.Seek(0, io.SeekStart) }},
	}
	if n <= stackbuf.BelieveLimit {
		all = append(all, again{"section", section, func() { section.Seek(0, io.SeekStart) }})
	}
	return all
}

// If the source tells, memory is taken once.
func TestReadFromAllocatesOnce(t *testing.T) {
	for _, n := range []int{65, 100, 512, 4096, 5000, 100_000} {
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

// Memory that is there is used again.
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

// A queue that does not grow makes do with what it has, whatever it is filled from.
func TestReadFromIntoAQueueAllocatesNothing(t *testing.T) {
	for _, held := range []int{0, 1, 50, 96, 500} {
		for _, n := range []int{1, 50, 97, 600, 1500} {
			for _, src := range append(knownAgain(n), unknownAgain(n)) {
				var b stackbuf.Buffer
				b.WriteString(long[:held])
				step := func() {
					src.start()
					b.ReadFrom(src.src)
					b.Next(n)
				}
				for range 100 { // until it has its size
					step()
				}
				wantAllocs(t, fmt.Sprintf("%s: a queue of %d, read by %d", src.name, held, n), 0, step)
			}
		}
	}
}
