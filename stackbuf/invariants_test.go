//go:build invariants

package stackbuf_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

// A target that keeps its slice finds other bytes in it later.
func TestWhatATargetKeepsIsPoisoned(t *testing.T) {
	for n := 1; n <= 64; n++ {
		b := stackbuf.NewBufferString(text(n))
		var w aside
		if m, err := b.WriteTo(&w); m != int64(n) || err != nil {
			t.Fatalf("WriteTo = %d, %v, want %d", m, err, n)
		}
		if want := bytes.Repeat([]byte{0xdb}, n); !bytes.Equal(w.p, want) {
			t.Errorf("the target that kept %d bytes finds %q", n, w.p)
		}
	}
}

// So does a target that panics.
func TestWhatAPanickingTargetKeepsIsPoisoned(t *testing.T) {
	b := stackbuf.NewBufferString("contents")
	var kept []byte
	outcome(func() string {
		b.WriteTo(writerFunc(func(p []byte) (int, error) {
			kept = p
			panic("the target panics")
		}))
		return ""
	})
	if want := bytes.Repeat([]byte{0xdb}, 8); !bytes.Equal(kept, want) {
		t.Errorf("the target finds %q", kept)
	}
	check(t, "after the panic", b, "contents")
}

// keeper is a source that keeps the slices that Read is called with.
type keeper struct {
	io.Reader
	kept [][]byte
}

func (k *keeper) Read(p []byte) (int, error) {
	k.kept = append(k.kept, p)
	return k.Reader.Read(p)
}

// A source that keeps its slice can neither see nor change the bytes in the value.
func TestWhatASourceKeepsIsPoisoned(t *testing.T) {
	for n := range 65 {
		var b stackbuf.Buffer
		k := keeper{Reader: strings.NewReader(text(n))}
		b.ReadFrom(&k)
		for _, p := range k.kept {
			if !bytes.Equal(p, bytes.Repeat([]byte{0xdb}, len(p))) {
				t.Errorf("the source of %d bytes finds %q and more", n, p[:100])
			}
		}
		for _, p := range k.kept {
			clear(p)
		}
		check(t, "after ReadFrom", &b, text(n))
	}
}
