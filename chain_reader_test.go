package millrace_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace"
)

// A ChainReader reads as a bytes.Reader does, wherever it goes.
func TestChainReaderAgainstBytesReader(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := letters(1 + rng.IntN(400))
		var c millrace.Chain
		addBlocks(millrace.DefaultPool, &c, p, 1+rng.IntN(20))
		got, want := c.Reader(), bytes.NewReader(p)
		for range 60 {
			switch rng.IntN(5) {
			case 0:
				b, err := got.ReadByte()
				if w, werr := want.ReadByte(); b != w || err != werr {
					t.Fatalf("seed %d: ReadByte = %q, %v, want %q, %v", seed, b, err, w, werr)
				}
			case 1, 2:
				b, w := make([]byte, rng.IntN(50)), make([]byte, 50)
				n, err := got.Read(b)
				m, werr := want.Read(w[:len(b)])
				if len(b) == 0 {
					werr = nil // where bytes.Reader has io.EOF at the end
				}
				if n != m || err != werr || !bytes.Equal(b[:n], w[:m]) {
					t.Fatalf("seed %d: Read(%d) = %q, %v, want %q, %v", seed, len(b), b[:n], err, w[:m], werr)
				}
			case 3:
				off := int64(rng.IntN(len(p) + 10))
				got.Seek(off, io.SeekStart)
				want.Seek(off, io.SeekStart)
			case 4:
				if rng.IntN(10) == 0 {
					c.Bytes() // joins the pieces that it has passed
				}
			}
			if got.Len() != want.Len() {
				t.Fatalf("seed %d: Len() = %d, want %d", seed, got.Len(), want.Len())
			}
		}
		c.Release()
	}
}

func TestChainReaderEdges(t *testing.T) {
	var c millrace.Chain
	addBlocks(millrace.DefaultPool, &c, letters(10), 3)
	defer c.Release()
	v := c.Reader()
	for _, test := range []struct {
		offset int64
		whence int
		at     int64
		text   string
	}{
		{3, io.SeekStart, 3, ""},
		{3, io.SeekCurrent, 6, ""},
		{-2, io.SeekEnd, 8, ""},
		{-9, io.SeekCurrent, 8, "millrace: Seek to before the start"},
		{-1, io.SeekStart, 8, "millrace: Seek to before the start"},
		{0, 7, 8, "millrace: Seek with whence 7"},
		{5, io.SeekEnd, 15, ""},
	} {
		at, err := v.Seek(test.offset, test.whence)
		if got := fmt.Sprint(err); err == nil && (test.text != "" || at != test.at) || err != nil && got != test.text {
			t.Errorf("Seek(%d, %d) = %d, %v, want %d, %s", test.offset, test.whence, at, err, test.at, test.text)
		}
		if at, _ := v.Seek(0, io.SeekCurrent); at != test.at {
			t.Errorf("Seek(%d, %d) left it at %d, want %d", test.offset, test.whence, at, test.at)
		}
	}
	if n, err := v.Read(make([]byte, 3)); n != 0 || err != io.EOF || v.Len() != 0 {
		t.Errorf("Read beyond the end = %d, %v; Len() = %d", n, err, v.Len())
	}
	if _, err := v.ReadByte(); err != io.EOF {
		t.Errorf("ReadByte beyond the end: %v", err)
	}
	if n, err := v.Read(nil); n != 0 || err != nil {
		t.Errorf("Read of nothing = %d, %v", n, err)
	}
	if _, err := v.ReadAt(make([]byte, 1), -1); err == nil || err == io.EOF {
		t.Errorf("ReadAt(-1): %v", err)
	}
}
