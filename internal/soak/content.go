package soak

import (
	"bytes"
	"encoding/binary"
)

// Everything that is sent follows from a few numbers, so that whoever receives it knows every byte without having kept
// one.

// mix is a number that looks as if it had nothing to do with x (the finish of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fill writes what the content of number id has from offset off on.
func fill(p []byte, id uint64, off int64) {
	var word [8]byte
	if skip := int(off % 8); skip > 0 {
		binary.LittleEndian.PutUint64(word[:], mix(id+uint64(off/8)))
		n := copy(p, word[skip:])
		p, off = p[n:], off+int64(n)
	}
	at := uint64(off / 8)
	for ; len(p) >= 8; p = p[8:] {
		binary.LittleEndian.PutUint64(p, mix(id+at))
		at++
	}
	if len(p) > 0 {
		binary.LittleEndian.PutUint64(word[:], mix(id+at))
		copy(p, word[:])
	}
}

// compareSize is how much of what came is compared at a time. It fits the stack.
const compareSize = 4 << 10

// differs returns the place of the first byte in p that is not what the content of number id has from offset off on, or -1.
func differs(p []byte, id uint64, off int64) int {
	var want [compareSize]byte
	for done := 0; done < len(p); {
		n := min(len(p)-done, len(want))
		fill(want[:n], id, off+int64(done))
		if at := firstDifference(p[done:done+n], want[:n]); at < n {
			return done + at
		}
		done += n
	}
	return -1
}

// firstDifference returns the first index at which a and b, which are of one length, have different bytes.
func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return len(a)
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// A contentVerifier compares what is written to it with the content of a number.
type contentVerifier struct {
	what string
	id   uint64
	off  int64 // of the next byte
}

// Write implements io.Writer.
func (v *contentVerifier) Write(p []byte) (int, error) {
	if at := differs(p, v.id, v.off); at >= 0 {
		return at, wrong("%s: byte %d is not what it should be", v.what, v.off+int64(at))
	}
	v.off += int64(len(p))
	return len(p), nil
}
