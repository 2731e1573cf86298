package millrace_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace"
)

// integerSources are the ways in which the bytes of an integer may lie: together, or apart from each other.
var integerSources = map[string]func(p []byte) *millrace.Reader{
	"whole":    func(p []byte) *millrace.Reader { return millrace.NewReader(bytes.NewReader(p)) },
	"one byte": func(p []byte) *millrace.Reader { return millrace.NewReader(iotest.OneByteReader(bytes.NewReader(p))) },
	"smallest": func(p []byte) *millrace.Reader {
		return millrace.NewReaderSize(iotest.HalfReader(bytes.NewReader(p)), 16)
	},
	"fed apart": func(p []byte) *millrace.Reader { return feedApart(p, 1) },
	"fed":       func(p []byte) *millrace.Reader { return feedApart(p, 3) },
}

// feedApart feeds p in pieces of n bytes, all at once and each in a block of its own.
func feedApart(p []byte, n int) *millrace.Reader {
	return millrace.NewReaderFrom(func(dst *millrace.Chain) error {
		for i := 0; i < len(p); i += n {
			r := freeze(millrace.DefaultPool, p[i:min(i+n, len(p))])
			dst.Append(&r)
		}
		p = nil
		return io.EOF
	})
}

func TestReadIntegers(t *testing.T) {
	p := make([]byte, 8*9)
	for i := range p {
		p[i] = byte(0x81 + 37*i)
	}
	for how, source := range integerSources {
		for n := 1; n <= 8; n++ {
			big, little := source(p), source(p)
			for i := 0; i+n <= len(p); i += n {
				var wide [8]byte
				copy(wide[8-n:], p[i:])
				if v, err := big.ReadBE(n); v != binary.BigEndian.Uint64(wide[:]) || err != nil {
					t.Errorf("%s: ReadBE(%d) of %x = %#x, %v", how, n, p[i:i+n], v, err)
				}
				wide = [8]byte{}
				copy(wide[:], p[i:i+n])
				if v, err := little.ReadLE(n); v != binary.LittleEndian.Uint64(wide[:]) || err != nil {
					t.Errorf("%s: ReadLE(%d) of %x = %#x, %v", how, n, p[i:i+n], v, err)
				}
			}
			big.Release()
			little.Release()
		}
	}
}

// An integer that does not arrive whole is not consumed.
func TestReadIntegersThatAreCut(t *testing.T) {
	for how, source := range integerSources {
		for n := 1; n <= 8; n++ {
			for have := range n {
				p := []byte("\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8")[:have]
				want := io.ErrUnexpectedEOF
				if have == 0 {
					want = io.EOF
				}
				for name, read := range map[string]func(r *millrace.Reader) (uint64, error){
					"ReadBE":      func(r *millrace.Reader) (uint64, error) { return r.ReadBE(n) },
					"ReadLE":      func(r *millrace.Reader) (uint64, error) { return r.ReadLE(n) },
					"ReadUvarint": (*millrace.Reader).ReadUvarint,
				} {
					r := source(p)
					if v, err := read(r); v != 0 || err != want {
						t.Errorf("%s: %s(%d) of %d bytes = %d, %v; want %v", how, name, n, have, v, err, want)
					}
					if b, err := io.ReadAll(r); !bytes.Equal(b, p) || err != nil {
						t.Errorf("%s: %s(%d) of %d bytes left %x, %v", how, name, n, have, b, err)
					}
					r.Release()
				}
			}
		}
	}
}

func TestReadIntegersOfImpossibleWidth(t *testing.T) {
	r := millrace.NewReader(&script{})
	defer r.Release()
	for _, n := range []int{-1, 0, 9} {
		want := fmt.Sprintf("millrace: integer of %d bytes; it has 1 to 8", n)
		if _, err := r.ReadBE(n); err == nil || err.Error() != want {
			t.Errorf("ReadBE(%d): %v", n, err)
		}
		if _, err := r.ReadLE(n); err == nil || err.Error() != want {
			t.Errorf("ReadLE(%d): %v", n, err)
		}
	}
}

func TestReadVarints(t *testing.T) {
	values := []uint64{0, 1, 127, 128, 300, 1 << 14, 1<<14 - 1, 1 << 32, 1<<63 - 1, 1 << 63, math.MaxUint64}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		values = append(values, rng.Uint64()>>rng.IntN(64))
	}
	var p []byte
	for _, v := range values {
		p = binary.AppendUvarint(p, v)
	}
	for how, source := range integerSources {
		a, b := source(p), source(p)
		for _, want := range values {
			if v, err := a.ReadUvarint(); v != want || err != nil {
				t.Fatalf("%s: ReadUvarint = %d, %v; want %d", how, v, err, want)
			}
			size := len(binary.AppendUvarint(nil, want))
			if v, n, err := b.ReadULEB128(); v != want || n != size || err != nil {
				t.Fatalf("%s: ReadULEB128 = %d, %d, %v; want %d, %d", how, v, n, err, want, size)
			}
		}
		a.Release()
		b.Release()
	}
}

// The same as encoding/binary says to every encoding, good and bad; what is bad stays unread.
func TestReadVarintsLikeEncodingBinary(t *testing.T) {
	nines := bytes.Repeat([]byte{0xff}, 9)
	for _, p := range [][]byte{
		{0}, {0x80, 0}, {0x80, 0x80, 0}, {0xff, 0x7f}, // longer than need be is not wrong
		append(bytes.Clone(nines), 0), append(bytes.Clone(nines), 1), append(bytes.Clone(nines), 2),
		append(bytes.Clone(nines), 0x7f), append(bytes.Clone(nines), 0x80), append(bytes.Clone(nines), 0x81, 0),
		bytes.Repeat([]byte{0x80}, 20), append(bytes.Repeat([]byte{0x80}, 9), 1),
		{}, {0x80}, {0xff, 0xff},
	} {
		want, wantErr := binary.ReadUvarint(bytes.NewReader(p))
		for how, source := range integerSources {
			r := source(p)
			v, size, err := r.ReadULEB128()
			if (err == nil) != (wantErr == nil) || err == nil && v != want || err != nil && (v != 0 || size != 0) {
				t.Errorf("%s: %x: %d, %d, %v; encoding/binary has %d, %v", how, p, v, size, err, want, wantErr)
			}
			if wantErr == io.EOF && err != io.EOF || wantErr == io.ErrUnexpectedEOF && err != io.ErrUnexpectedEOF {
				t.Errorf("%s: %x: %v, want %v", how, p, err, wantErr)
			}
			if rest, _ := io.ReadAll(r); !bytes.Equal(rest, p[size:]) {
				t.Errorf("%s: %x: left %x", how, p, rest)
			}
			r.Release()
		}
	}
}
