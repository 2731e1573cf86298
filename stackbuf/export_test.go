package stackbuf

import "fmt"

// Access to private parts for tests in package stackbuf_test.

const MaxClaim = maxClaim

// Spilled reports whether b's contents are outside the value.
func Spilled(b *Buffer) bool { return b.spill != nil }

// Broken returns an error that names the invariant of Buffer that b violates.
func Broken(b *Buffer) error {
	size := inlineSize
	if b.spill != nil {
		size = len(b.spill)
	}
	switch {
	case b.r < 0 || b.r > b.w:
		return fmt.Errorf("r is %d, w is %d", b.r, b.w)
	case b.w > size:
		return fmt.Errorf("w is %d in memory of %d bytes", b.w, size)
	case len(b.spill) != cap(b.spill):
		return fmt.Errorf("spill has %d of its %d bytes", len(b.spill), cap(b.spill))
	case b.lastRead < lastByte || b.lastRead > 4:
		return fmt.Errorf("lastRead is %d", b.lastRead)
	}
	for i := range b.inline {
		if len(b.spill) > 0 && &b.spill[0] == &b.inline[i] {
			return fmt.Errorf("spill points into inline, at %d", i)
		}
	}
	return nil
}
