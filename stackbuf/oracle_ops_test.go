package stackbuf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing/iotest"

	"github.com/millrace-io/millrace/stackbuf"
)

// An effect is what an operation does, beyond what bytes.Buffer shows.
type effect int

const (
	writes effect = 1 << iota // changes memory that copies may share
	moves                     // may move the contents away from what Unread* takes back
	keeps                     // leaves to Unread* what was left to it before
)

// rigOps is what can be done to slot i. Fuzz inputs refer to the entries by index: add new ones at the end.
var rigOps = []struct {
	name   string
	effect effect
	do     func(r *rig, i int)
}{
	{"Write", writes, func(r *rig, i int) {
		p := r.bytes()
		r.do(i, func(b buffer) string { return fmt.Sprint(b.Write(p)) })
	}},
	{"WriteString", writes, func(r *rig, i int) {
		s := string(r.bytes())
		r.do(i, func(b buffer) string { return fmt.Sprint(b.WriteString(s)) })
	}},
	{"WriteByte", writes, func(r *rig, i int) {
		c := r.choose()
		r.do(i, func(b buffer) string { return fmt.Sprint(b.WriteByte(c)) })
	}},
	{"WriteRune", writes, func(r *rig, i int) {
		c := rigRunes[int(r.choose())%len(rigRunes)]
		r.note(c)
		r.do(i, func(b buffer) string { return fmt.Sprint(b.WriteRune(c)) })
	}},
	{"Read", 0, func(r *rig, i int) {
		p := make([]byte, r.upTo(100))
		r.do(i, func(b buffer) string {
			n, err := b.Read(p)
			return fmt.Sprintf("%d %v %q", n, err, p[:n])
		})
	}},
	{"ReadByte", 0, func(r *rig, i int) {
		r.do(i, func(b buffer) string { return fmt.Sprint(b.ReadByte()) })
	}},
	{"ReadRune", 0, func(r *rig, i int) {
		r.do(i, func(b buffer) string { return fmt.Sprint(b.ReadRune()) })
	}},
	{"UnreadByte", keeps, func(r *rig, i int) { r.unread(i, buffer.UnreadByte) }},
	{"UnreadRune", keeps, func(r *rig, i int) { r.unread(i, buffer.UnreadRune) }},
	{"ReadBytes", 0, func(r *rig, i int) {
		delim := r.choose()
		r.do(i, func(b buffer) string {
			line, err := b.ReadBytes(delim)
			return fmt.Sprintf("%q %t %v", line, line == nil, err)
		})
	}},
	{"ReadString", 0, func(r *rig, i int) {
		delim := r.choose()
		r.do(i, func(b buffer) string { return fmt.Sprint(b.ReadString(delim)) })
	}},
	{"Next", 0, func(r *rig, i int) {
		n := r.upTo(r.slots[i].o.Len()+2) - 1
		r.do(i, func(b buffer) string { return fmt.Sprintf("%q", b.Next(n)) })
	}},
	{"Peek", keeps, func(r *rig, i int) {
		n := r.upTo(r.slots[i].o.Len()+2) - 1
		r.do(i, func(b buffer) string {
			p, err := b.Peek(n)
			return fmt.Sprintf("%q %v", p, err)
		})
	}},
	{"Truncate", 0, func(r *rig, i int) {
		n := r.upTo(r.slots[i].o.Len()+2) - 1
		r.do(i, func(b buffer) string { b.Truncate(n); return "" })
	}},
	{"Reset", 0, func(r *rig, i int) {
		r.do(i, func(b buffer) string { b.Reset(); return "" })
	}},
	{"Grow", writes | moves, func(r *rig, i int) {
		n := r.upTo(200) - 1
		if n == 199 && !narrow {
			n = []int{math.MaxInt, math.MaxInt - 1, math.MaxInt - 64, math.MaxInt / 2, 3000, 1000}[r.choose()%6]
			r.note(n)
		}
		r.do(i, func(b buffer) string {
			b.Grow(n)
			return fmt.Sprint(b.Available() >= n)
		})
	}},
	{"ReadFrom", writes, rigReadFrom},
	{"WriteTo", 0, rigWriteTo},
	{"append to AvailableBuffer and Write", writes, func(r *rig, i int) {
		p := r.bytes()
		r.do(i, func(b buffer) string {
			return fmt.Sprint(b.Write(append(strconv.AppendInt(b.AvailableBuffer(), int64(len(p)), 10), p...)))
		})
	}},
	{"change what Bytes returns", writes | keeps, func(r *rig, i int) {
		c := r.choose()
		r.do(i, func(b buffer) string {
			p := b.Bytes()
			for j := range p {
				p[j] ^= c
			}
			_ = append(p, c) // behind the contents
			return ""
		})
	}},
	{"Write a part of Bytes", writes, func(r *rig, i int) {
		to := r.upTo(r.slots[i].o.Len())
		from := r.upTo(to)
		r.do(i, func(b buffer) string { return fmt.Sprint(b.Write(b.Bytes()[from:to])) })
	}},
	{"Write what Next returns", writes, func(r *rig, i int) {
		n := r.upTo(r.slots[i].o.Len())
		r.do(i, func(b buffer) string { return fmt.Sprint(b.Write(b.Next(n))) })
	}},
	{"ReadFrom a part of Bytes", writes, func(r *rig, i int) {
		to := r.upTo(r.slots[i].o.Len())
		from := r.upTo(to)
		r.do(i, func(b buffer) string { return fmt.Sprint(b.ReadFrom(bytes.NewReader(b.Bytes()[from:to]))) })
	}},
	{"WriteTo itself", writes, func(r *rig, i int) {
		r.do(i, func(b buffer) string { return fmt.Sprint(b.WriteTo(b)) })
	}},
	{"Shrink", moves, func(r *rig, i int) { r.shrink(i) }},
	{"copy to", keeps, func(r *rig, i int) {
		j := int(r.choose()) % len(r.slots)
		r.note(j)
		r.copy(i, j)
	}},
	{"NewBuffer", 0, func(r *rig, i int) {
		p, room := r.bytes(), r.upTo(100)
		fresh := func() []byte { return append(make([]byte, 0, len(p)+room), p...) }
		r.slots[i].start(*stackbuf.NewBuffer(fresh()), func() *bytes.Buffer { return bytes.NewBuffer(fresh()) })
	}},
	{"NewBufferString", 0, func(r *rig, i int) {
		s := string(r.bytes())
		r.slots[i].start(*stackbuf.NewBufferString(s), func() *bytes.Buffer { return bytes.NewBufferString(s) })
	}},
}

// rigRunes have encodings of every length, and none.
var rigRunes = []rune{
	0, 'a', 0x7f, 0x80, 'é', 0x7ff, 0x800, '€', 0xd7ff, 0xd800, 0xffff, '𝄞', 0x10ffff, 0x110000, -1, math.MinInt32,
}

func rigReadFrom(r *rig, i int) {
	p, kind := r.bytes(), r.choose()
	claim := r.upTo(4000) - 1
	r.note("source", kind%16)
	r.do(i, func(b buffer) string {
		return fmt.Sprint(b.ReadFrom(rigSource(int(kind%16), p, int64(claim))))
	})
}

// rigSource returns a source of p that is new.
func rigSource(kind int, p []byte, claim int64) io.Reader {
	known := bytes.NewReader(p)
	unknown := only{known}
	switch kind {
	case 0:
		return known
	case 1:
		return strings.NewReader(string(p))
	case 2:
		return unknown
	case 3:
		return io.LimitReader(known, claim)
	case 4:
		return io.LimitReader(unknown, claim)
	case 5:
		return io.NewSectionReader(known, claim/2, claim)
	case 6:
		return iotest.OneByteReader(known)
	case 7:
		return iotest.DataErrReader(iotest.HalfReader(known))
	case 8:
		return io.MultiReader(known, iotest.ErrReader(errBroken))
	case 9:
		return withLen{unknown, int(claim)}
	case 10:
		return withSize{unknown, claim}
	case 11:
		return withLen{scripted(step{0, nil}, step{3, nil}, step{0, nil}, step{600, errBroken}), int(claim)}
	case 12:
		return withLen{scripted(step{100, nil}, step{-1, nil}), int(claim)}
	case 13:
		return scripted(step{3, nil}, step{beyond, nil})
	case 14:
		return scripted(step{100, nil}, step{panics, nil})
	}
	from := stackbuf.NewBuffer(p)
	from.ReadByte()
	return from
}

func rigWriteTo(r *rig, i int) {
	w := taker{most: r.upTo(r.slots[i].o.Len() + 1)}
	switch r.choose() % 4 {
	case 0:
		w.err = errBroken
	case 1:
		w.extra = 1
	case 2:
		w.panics = true
	}
	r.note(w.err, w.extra, w.panics)
	r.do(i, func(b buffer) string {
		to := w
		result := outcome(func() string { return fmt.Sprint(b.WriteTo(&to)) })
		return fmt.Sprintf("%s %q", result, to.got)
	})
}

var errBroken = errors.New("broken")
