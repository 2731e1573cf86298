package flv_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/flv"
)

// loop is an infinite stream: a header, and then one tag repeatedly.
type loop struct {
	head, tag string
	at        int
}

func newLoop(size int) *loop {
	return &loop{head: fileHeader, tag: rawTag(video, 40,
		"\x27\x01\x00\x00\x00"+strings.Repeat("x", size-5))}
}

func (l *loop) Read(p []byte) (n int, err error) {
	n = copy(p, l.head)
	l.head = l.head[n:]
	for n < len(p) {
		m := copy(p[n:], l.tag[l.at:])
		l.at = (l.at + m) % len(l.tag)
		n += m
	}
	return n, nil
}

func BenchmarkNext(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			r := millrace.NewReader(newLoop(size))
			defer r.Release()
			d := flv.NewDecoder(r)
			var c millrace.Chain
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Next(&c); err != nil {
					b.Fatal(err)
				}
				c.Release()
			}
		})
	}
}
