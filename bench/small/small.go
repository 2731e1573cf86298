// Package small measures what a buffer of bytes costs whose contents are small,
// and that nothing is lost when they are not: stackbuf.Buffer beside
// bytes.Buffer and strings.Builder.
//
// The code of the first two is the same text, once for each type: a generic
// function or an interface would call the methods indirectly, and nothing could
// be inlined or stay on the stack. stackbuf.go is made from bytes.go.
package small

//go:generate ./generate

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Work does something n times.
type Work func(n int)

// Case is one thing to do, once for each type that can.
type Case struct {
	Name                     string
	Bytes, Stackbuf, Builder Work
}

// works are what one type is asked to do. Where there are two, the first makes
// a new buffer each time and the second uses one again.
type works struct {
	newString, newOnly                       func(size int) Work
	write, writeString, writeByte, writeRune [2]func(size int) Work
	readKnown, readUnknown                   func(size int) Work
	writeTo                                  [2]func(io.Writer) Work
	fprintf                                  Work
}

const (
	chunk = 16 // bytes of each Write and WriteString
	kib   = 1 << 10
	mib   = 1 << 20
)

// What is written and read. The large one is not on the heap, which it would
// make so large that the collector hardly ever runs; then those who make the
// most garbage would have the most of it.
var (
	text = strings.Repeat("0123456789abcdef", 64*kib/16)
	data [4 * mib]byte
)

// What the works come to, so that none of them is optimised away.
var (
	lastString string
	lastLen    int
)

// Cases are all of them; the order is that of the tables.
func Cases() []Case {
	var cases []Case
	b, s, sb := ofBytes(), ofStackbuf(), ofBuilder()
	add := func(name string, b, s, sb Work) { cases = append(cases, Case{name, b, s, sb}) }
	for _, n := range []int{0, 5, 64, 128, 1024} {
		add(fmt.Sprintf("new, write %d B, String", n), b.newString(n), s.newString(n), sb.newString(n))
	}
	for _, n := range []int{0, 5, 64, 128, 1024} {
		add(fmt.Sprintf("new, write %d B", n), b.newOnly(n), s.newOnly(n), sb.newOnly(n))
	}
	for i, how := range []string{"new", "reused"} {
		for _, n := range []int{64, kib, 64 * kib} {
			add(fmt.Sprintf("%s, Write to %s", how, size(n)), b.write[i](n), s.write[i](n), sb.write[i](n))
			add(fmt.Sprintf("%s, WriteString to %s", how, size(n)), b.writeString[i](n), s.writeString[i](n), sb.writeString[i](n))
			add(fmt.Sprintf("%s, WriteByte to %s", how, size(n)), b.writeByte[i](n), s.writeByte[i](n), sb.writeByte[i](n))
			add(fmt.Sprintf("%s, WriteRune to %s", how, size(n)), b.writeRune[i](n), s.writeRune[i](n), sb.writeRune[i](n))
		}
	}
	for _, n := range []int{512, 64 * kib, 4 * mib} {
		add("new, ReadFrom "+size(n)+", size known", b.readKnown(n), s.readKnown(n), nil)
		add("new, ReadFrom "+size(n)+", not known", b.readUnknown(n), s.readUnknown(n), nil)
	}
	add("new, fmt.Fprintf", b.fprintf, s.fprintf, sb.fprintf)
	for i, how := range []string{"new", "reused"} {
		buffered := bufio.NewWriter(io.Discard)
		add(how+", write 48 B, WriteTo a bufio.Writer", b.writeTo[i](buffered), s.writeTo[i](buffered), nil)
		add(how+", write 48 B, WriteTo a type of one's own", b.writeTo[i](new(taker)), s.writeTo[i](new(taker)), nil)
	}
	return cases
}

func size(n int) string {
	switch {
	case n >= mib:
		return fmt.Sprintf("%d MiB", n/mib)
	case n >= kib:
		return fmt.Sprintf("%d KiB", n/kib)
	}
	return fmt.Sprintf("%d B", n)
}

// plain is a source that does not tell its size.
type plain struct{ left []byte }

func (p *plain) Read(dst []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(dst, p.left)
	p.left = p.left[n:]
	return n, nil
}

// taker is a target that nobody knows.
type taker struct{ taken int }

func (t *taker) Write(p []byte) (int, error) {
	t.taken += len(p)
	return len(p), nil
}
