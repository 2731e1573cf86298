package stackbuf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

// deep recurses with a Buffer in every frame, so that the stack, with the arrays in it, moves
// repeatedly. On the way back it checks that each Buffer still has its bytes, and returns the first
// fault. It allocates nothing, because otherwise its Buffers might be on the heap; another test
// checks that.
//
//go:noinline
func deep(depth, id int, padding [200]byte) (wrong string) {
	var b stackbuf.Buffer
	b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(id), 10))
	b.WriteString(long[depth%100:][:40])
	before := b.Bytes() // must follow when the stack moves
	copied := b
	padding[depth%len(padding)] = byte(depth)
	if depth > 0 {
		if wrong := deep(depth-1, id, padding); wrong != "" {
			return wrong
		}
	} else {
		runtime.GC()
	}
	b.WriteString(long[depth%100:][40:50])
	switch {
	case !holds(before, id, depth, 40):
		return "the slice shows something else"
	case !holds(b.Bytes(), id, depth, 50):
		return "the Buffer holds something else"
	case !holds(copied.Bytes(), id, depth, 40):
		return "the copy holds something else"
	case padding[depth%len(padding)] != byte(depth):
		return "the frame was overwritten"
	}
	return ""
}

// holds reports whether p is what deep wrote, including n bytes of long.
func holds(p []byte, id, depth, n int) bool {
	var number [20]byte
	rest, found := bytes.CutPrefix(p, strconv.AppendInt(number[:0], int64(id), 10))
	return found && string(rest) == long[depth%100:][:n]
}

func TestStacksGrowUnderBuffers(t *testing.T) {
	var wg sync.WaitGroup
	for id := range 16 {
		wg.Go(func() {
			for round := range rounds(20) {
				if wrong := deep(20+round*30, id, [200]byte{}); wrong != "" {
					t.Error(wrong)
					return
				}
			}
		})
	}
	wg.Wait()
}

// The stack moves while a source or a target uses its slice.
func TestStacksGrowDuringReadFromAndWriteTo(t *testing.T) {
	var wg sync.WaitGroup
	for id := range 8 {
		wg.Go(func() {
			for i := range rounds(50) {
				if err := relay(id, i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// relay passes text through a Buffer on the stack of a new goroutine. The source and the target
// need a deep stack.
func relay(id, n int) error {
	result := make(chan error, 1)
	go func() {
		var b stackbuf.Buffer
		b.WriteString(text(n))
		read := false
		_, err := b.ReadFrom(readerFunc(func(p []byte) (int, error) {
			if read {
				return 0, io.EOF
			}
			read = true
			if wrong := deep(50, id, [200]byte{}); wrong != "" {
				return 0, errors.New(wrong)
			}
			return copy(p, text(n)), nil
		}))
		if err == nil {
			_, err = b.WriteTo(writerFunc(func(p []byte) (int, error) {
				if wrong := deep(100, id, [200]byte{}); wrong != "" {
					return 0, errors.New(wrong)
				}
				if string(p) != text(n)+text(n) {
					return 0, fmt.Errorf("written was %q", p)
				}
				return len(p), nil
			}))
		}
		result <- err
	}()
	return <-result
}
