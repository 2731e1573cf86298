package stackbuf_test

import (
	"bufio"
	"fmt"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

func TestWriteTo(t *testing.T) {
	for _, n := range sizes {
		for what, b := range filled(text(n)) {
			size := b.Cap()
			w := taker{most: n}
			m, err := b.WriteTo(&w)
			if m != int64(n) || err != nil || string(w.got) != text(n) {
				t.Errorf("%s: WriteTo of %d = %d, %v, the target got %q", what, n, m, err, w.got)
			}
			if want := min(n, 1); w.calls != want {
				t.Errorf("%s: WriteTo of %d took %d calls of Write, want %d", what, n, w.calls,
					want)
			}
			check(t, what, b, "")
			if b.Available() != size {
				t.Errorf("%s: afterwards %d of %d bytes are free", what, b.Available(), size)
			}
		}
	}
}

// spoiler is a target that writes to its argument, which is forbidden.
type spoiler struct{}

func (spoiler) Write(p []byte) (int, error) {
	clear(p)
	return 0, errBroken
}

// A target cannot change contents in the value.
func TestSmallContentsAreWrittenFromElsewhere(t *testing.T) {
	for n := range 65 {
		var b stackbuf.Buffer
		b.WriteString(text(n))
		b.WriteTo(spoiler{})
		check(t, fmt.Sprint(n), &b, text(n))
	}
}

// Contents on the heap are written without a copy.
func TestLargeContentsAreWrittenFromWhereTheyAre(t *testing.T) {
	for _, n := range []int{65, 5000} {
		b := stackbuf.NewBufferString(text(n))
		var w aside
		first := &b.Bytes()[0]
		b.WriteTo(&w)
		if &w.p[0] != first {
			t.Errorf("%d bytes were copied", n)
		}
	}
}

// aside keeps the slice that Write was called with, which is forbidden.
type aside struct{ p []byte }

func (a *aside) Write(p []byte) (int, error) {
	a.p = p
	return len(p), nil
}

// A bufio.Writer gets all bytes in one Write, with any free room, and its errors are returned.
func TestWriteToBufioWriter(t *testing.T) {
	for _, n := range sizes {
		for room := range 70 {
			for what, b := range filled(text(n)) {
				w := taker{most: 1 << 20}
				buffered := bufio.NewWriterSize(&w, 100)
				before := text(100 - room)
				buffered.WriteString(before)
				if m, err := b.WriteTo(buffered); m != int64(n) || err != nil {
					t.Fatalf("%s: WriteTo of %d where there is room for %d = %d, %v", what, n, room,
						m, err)
				}
				check(t, what, b, "")
				buffered.Flush()
				if string(w.got) != before+text(n) {
					t.Fatalf("%s: of %d bytes where there is room for %d came %q", what, n, room,
						w.got)
				}
			}
		}
	}
	for what, b := range filled(text(40)) {
		buffered := bufio.NewWriterSize(&taker{err: errBroken}, 100)
		buffered.WriteString(text(90))
		buffered.Flush()
		if m, err := b.WriteTo(buffered); m != 0 || err != errBroken {
			t.Errorf("%s: WriteTo a Writer that has failed = %d, %v", what, m, err)
		}
		check(t, what, b, text(40))
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
