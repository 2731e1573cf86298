package mp4

// bitReader reads numbers of any number of bits, highest first. Reading past the end gives zeros and sets short.
type bitReader struct {
	p     []byte
	at    int // in bits
	short bool
}

// u reads n bits, n ≤ 32.
func (b *bitReader) u(n int) uint32 {
	var v uint32
	for range n {
		v <<= 1
		if b.at>>3 >= len(b.p) {
			b.short = true
			continue
		}
		v |= uint32(b.p[b.at>>3]>>(7-b.at&7)) & 1
		b.at++
	}
	return v
}

func (b *bitReader) flag() bool { return b.u(1) == 1 }

// skip passes over n bits.
func (b *bitReader) skip(n int) {
	b.at += n
	if b.at > 8*len(b.p) {
		b.at, b.short = 8*len(b.p), true
	}
}

// ue reads an unsigned Exp-Golomb number: n zeros, a one, n bits.
func (b *bitReader) ue() uint32 {
	zeros := 0
	for !b.flag() {
		if zeros++; zeros > 31 || b.short {
			b.short = true
			return 0
		}
	}
	return 1<<zeros - 1 + b.u(zeros)
}

// se reads a signed Exp-Golomb number: 0, 1, -1, 2, -2, ...
func (b *bitReader) se() int32 {
	v := b.ue()
	if v&1 == 1 {
		return int32(v>>1) + 1
	}
	return -int32(v >> 1)
}

// unescape removes the emulation prevention bytes of a NAL unit: in 00 00 03 the 03 is not data. It borrows nal.
func unescape(nal []byte) []byte {
	out := make([]byte, 0, len(nal))
	zeros := 0
	for _, c := range nal {
		if zeros >= 2 && c == 3 {
			zeros = 0
			continue
		}
		if c == 0 {
			zeros++
		} else {
			zeros = 0
		}
		out = append(out, c)
	}
	return out
}
