package record

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace"
)

// A file gets all pieces, even if they need several system calls. An error leaves the rest in the
// chain.
func TestWriteTo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	source := make([]byte, 100_000)
	for i := range source {
		source[i] = byte(i / 7)
	}
	var all, c millrace.Chain
	defer all.Release()
	defer c.Release()
	all.AppendCopy(source)
	var want []byte
	// Every other piece is used, so that the pieces are not adjacent.
	for at := 0; at+20 <= len(source); at += 40 {
		all.SliceTo(&c, at, at+20)
		want = append(want, source[at:at+20]...)
	}
	if c.Pieces() < 2*maxVector {
		t.Fatalf("%d pieces, want more than two system calls take", c.Pieces())
	}
	if err := writeTo(&c, f); err != nil || c.Len() != 0 {
		t.Errorf("%v, %d bytes are left", err, c.Len())
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d, %v", len(got), len(want), err)
	}
	all.SliceTo(&c, 0, 1000)
	if err := writeTo(&c, f); err == nil || c.Len() != 1000 {
		t.Errorf("to a closed file: %v, %d bytes are left", err, c.Len())
	}
	if f, err = os.Open(name); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := writeTo(&c, f); !errors.Is(err, syscall.EBADF) || c.Len() != 1000 {
		t.Errorf("to a file that is open for reading: %v, %d bytes are left", err, c.Len())
	}
}
