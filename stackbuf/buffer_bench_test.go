package stackbuf_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

// What the benchmarks come to, so that nothing is optimised away.
var (
	benchString string
	benchLen    int
)

// BenchmarkNew is a new buffer, one write and String, and the same without String.
func BenchmarkNew(b *testing.B) {
	for _, n := range []int{0, 5, 64, 128, 1024} {
		s := strings.Repeat("x", n)
		b.Run(fmt.Sprintf("N%d/bytes.Buffer", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var buf bytes.Buffer
				buf.WriteString(s)
				benchString = buf.String()
			}
		})
		b.Run(fmt.Sprintf("N%d/stackbuf", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var buf stackbuf.Buffer
				buf.WriteString(s)
				benchString = buf.String()
			}
		})
		b.Run(fmt.Sprintf("N%d/bytes.Buffer, no String", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var buf bytes.Buffer
				buf.WriteString(s)
				benchLen = buf.Len()
			}
		})
		b.Run(fmt.Sprintf("N%d/stackbuf, no String", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var buf stackbuf.Buffer
				buf.WriteString(s)
				benchLen = buf.Len()
			}
		})
	}
}

// BenchmarkReadFrom reads all of a source into a new buffer.
func BenchmarkReadFrom(b *testing.B) {
	for _, n := range []int{512, 64 << 10} {
		data := make([]byte, n)
		b.Run(fmt.Sprintf("N%d/bytes.Buffer", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for b.Loop() {
				var buf bytes.Buffer
				buf.ReadFrom(bytes.NewReader(data))
			}
		})
		b.Run(fmt.Sprintf("N%d/stackbuf", n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(n))
			for b.Loop() {
				var buf stackbuf.Buffer
				buf.ReadFrom(bytes.NewReader(data))
			}
		})
	}
}
