package stackbuf

import (
	"fmt"
	"unicode/utf8"
)

// The methods that write have one branch for contents in the array and one for contents on the
// heap. Choosing the slice first and then writing to it would double the cost of writing a byte.
// Rare work is in functions that a method calls as its last step, so that the method need not save
// registers for the call.

// Write appends p, which it borrows, and never returns an error. It panics with ErrTooLarge if
// memory runs out.
func (b *Buffer) Write(p []byte) (n int, err error) {
	b.lastRead = nothing
	if len(p) == 0 { // copying zero bytes would be half of the cost
		return 0, nil
	}
	w := b.w
	if spill := b.spill; spill == nil {
		if len(p) <= inlineSize-w {
			b.w = w + len(p)
			return copy(b.inline[w:], p), nil
		}
	} else if len(p) <= len(spill)-w {
		b.w = w + len(p)
		return copy(spill[w:], p), nil
	}
	return b.growWrite(p)
}

func (b *Buffer) growWrite(p []byte) (n int, err error) {
	if b.spill == nil && b.r == b.w && len(p) > inlineSize {
		b.setMemory(append([]byte(nil), p...)) // append need not clear the new memory first
		return len(p), nil
	}
	var moved [inlineSize]byte
	if b.spill == nil && len(p) <= inlineSize-b.Len() {
		// p may be a part of b.inline, which makeRoom may overwrite. Use a copy of p.
		p = moved[:copy(moved[:], p)]
	}
	b.makeRoom(len(p))
	n = copy(b.room(), p)
	b.w += n
	return n, nil
}

// WriteString appends s, and never returns an error. It panics with ErrTooLarge if memory runs out.
func (b *Buffer) WriteString(s string) (n int, err error) {
	b.lastRead = nothing
	if len(s) == 0 {
		return 0, nil
	}
	w := b.w
	if spill := b.spill; spill == nil {
		if len(s) <= inlineSize-w {
			b.w = w + len(s)
			return copy(b.inline[w:], s), nil
		}
	} else if len(s) <= len(spill)-w {
		b.w = w + len(s)
		return copy(spill[w:], s), nil
	}
	return b.growWriteString(s)
}

func (b *Buffer) growWriteString(s string) (n int, err error) {
	if b.spill == nil && b.r == b.w && len(s) > inlineSize {
		b.setMemory(append([]byte(nil), s...))
		return len(s), nil
	}
	b.makeRoom(len(s))
	n = copy(b.room(), s)
	b.w += n
	return n, nil
}

// WriteByte appends c and returns nil. It panics with ErrTooLarge if memory runs out.
func (b *Buffer) WriteByte(c byte) error {
	b.lastRead = nothing
	w := b.w
	// Store the byte before the new length. In the reverse order, the compiler would load the slice
	// twice.
	if spill := b.spill; uint(w) < uint(len(spill)) {
		spill[w] = c
		b.w = w + 1
		return nil
	}
	if uint(w) < inlineSize && b.spill == nil {
		b.inline[w] = c
		b.w = w + 1
		return nil
	}
	return b.growByte(c)
}

func (b *Buffer) growByte(c byte) error {
	b.makeRoom(1)
	b.room()[0] = c
	b.w++
	return nil
}

// WriteRune appends the UTF-8 encoding of r, and returns its length in bytes. For an invalid rune
// it appends U+FFFD. The error is always nil. WriteRune panics with ErrTooLarge if memory runs out.
func (b *Buffer) WriteRune(r rune) (n int, err error) {
	if uint32(r) < utf8.RuneSelf { // a negative rune becomes a large uint32
		return 1, b.WriteByte(byte(r))
	}
	b.lastRead = nothing
	w := b.w
	if b.spill == nil {
		if w <= inlineSize-utf8.UTFMax {
			n = utf8.EncodeRune(b.inline[w:], r)
			b.w = w + n
			return n, nil
		}
	} else if w <= len(b.spill)-utf8.UTFMax {
		n = utf8.EncodeRune(b.spill[w:], r)
		b.w = w + n
		return n, nil
	}
	var p [utf8.UTFMax]byte // the rune may fit even if utf8.UTFMax bytes do not
	return b.Write(p[:utf8.EncodeRune(p[:], r)])
}

// Printf appends the text that [fmt.Printf] would print. Unlike fmt.Fprintf, it does not move b to
// the heap. The arguments are passed as interfaces, so an argument may still move to the heap. An
// argument may read the contents of b, but its methods must not change b.
func (b *Buffer) Printf(format string, args ...any) {
	b.Write(fmt.Appendf(b.AvailableBuffer(), format, args...))
}

func (b *Buffer) room() []byte {
	if b.spill == nil {
		return b.inline[b.w:]
	}
	return b.spill[b.w:]
}
