package soak

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"io"
)

func contentOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, name)
	return h.Sum64()
}

// mix returns a number that looks unrelated to x. It is the final step of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func fill(p []byte, id uint64, off int64) {
	var word [8]byte
	for at := uint64(off / 8); len(p) > 0; at++ {
		binary.LittleEndian.PutUint64(word[:], mix(id+at))
		n := copy(p, word[off%8:])
		p, off = p[n:], off+int64(n)
	}
}

// A content is a sequence of pseudorandom bytes that depends only on an id. Read returns the next
// bytes of the sequence. Write compares the written bytes with the next bytes.
type content struct {
	what string // name for errors
	id   uint64
	off  int64 // offset of the next byte
	end  int64 // end offset for Read
}

func (c *content) Read(p []byte) (int, error) {
	if c.off >= c.end {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), c.end-c.off))
	fill(p[:n], c.id, c.off)
	c.off += int64(n)
	return n, nil
}

// Write implements io.Writer. It returns a *wrongError if p differs from the next bytes.
func (c *content) Write(p []byte) (int, error) {
	var want [4 << 10]byte
	for done := 0; done < len(p); {
		n := min(len(p)-done, len(want))
		fill(want[:n], c.id, c.off)
		if !bytes.Equal(p[done:done+n], want[:n]) {
			return done, wrong("%s: wrong bytes at offset %d or less than %d later", c.what, c.off,
				n)
		}
		done += n
		c.off += int64(n)
	}
	return len(p), nil
}
