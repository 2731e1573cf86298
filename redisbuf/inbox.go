package redisbuf

import "github.com/millrace-io/millrace"

const (
	// inboxLen is what a connection has for headers, and for what follows a value. Nearly all replies but the values
	// themselves are shorter; for a longer one a block is borrowed.
	inboxLen = 96

	// maxLine bounds a line of a reply: an error's text, say.
	maxLine = 64 << 10
)

// An inbox has the bytes that were received and that nobody has taken yet, apart from values.
//
// Invariant: 0 ≤ r ≤ w ≤ len(area()).
type inbox struct {
	small [inboxLen]byte
	large millrace.Draft // instead of small, unless it is empty
	r, w  int
}

func (b *inbox) area() []byte {
	if p := b.large.Bytes(); p != nil {
		return p
	}
	return b.small[:]
}

// unread returns what is there, valid until the next call of another method.
func (b *inbox) unread() []byte { return b.area()[b.r:b.w] }

// take removes n bytes, n ≤ len(b.unread()).
func (b *inbox) take(n int) {
	if b.r += n; b.r == b.w {
		b.clear()
	}
}

// clear removes all bytes.
func (b *inbox) clear() {
	b.large.Release()
	b.r, b.w = 0, 0
}

// room returns where to receive to; there is none when maxLine bytes are there.
func (b *inbox) room() []byte {
	if b.r > 0 {
		b.w = copy(b.area(), b.unread())
		b.r = 0
	}
	if b.w == len(b.area()) && b.w < maxLine {
		b.move(maxLine)
	}
	return b.area()[b.w:]
}

// move moves what is there to a block of size bytes.
func (b *inbox) move(size int) {
	d := millrace.DefaultPool.Get(size)
	n := copy(d.Bytes(), b.unread())
	b.large.Release()
	b.large, b.r, b.w = d, 0, n
}

// received adds n bytes that were put where room said.
func (b *inbox) received(n int) { b.w += n }

// set replaces what is there by p, which is not part of it.
func (b *inbox) set(p []byte) {
	b.clear()
	if len(p) > len(b.small) {
		b.large = millrace.DefaultPool.Get(len(p))
	}
	b.w = copy(b.area(), p)
}

// shrink puts what is there where it needs no block, and reports whether it is short enough for that.
func (b *inbox) shrink() bool {
	var p [inboxLen]byte
	n := copy(p[:], b.unread())
	if n < len(b.unread()) {
		return false
	}
	b.set(p[:n])
	return true
}
