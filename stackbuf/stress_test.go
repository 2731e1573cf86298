package stackbuf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/stackbuf"
)

// deep goes down with a Buffer in every frame, so that the stack has to be moved again and again, with the arrays in it,
// and comes back up to find in each what it wrote on the way. It returns what it found wrong. It allocates nothing, or
// else its Buffers might be on the heap; there is a test for that.
//
//go:noinline
func deep(depth, id int, padding [200]byte) (wrong string) {
	var b stackbuf.Buffer
	b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(id), 10))
	b.WriteString(long[depth%100:][:40])
	before := b.Bytes() // it has to follow when the stack moves
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

// holds reports whether p is what deep writes, with n bytes of long.
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

// The stack moves while a source or a target is at work with what it was given.
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

// relay passes text through a Buffer on the stack of a new goroutine, whose source and target need a deep stack.
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

// While the collector runs, Buffers spill, shrink, are copied, and move from the stack to the heap and from goroutine to
// goroutine; their contents stay.
func TestBuffersUnderTheCollector(t *testing.T) {
	stop := make(chan struct{})
	var collector, workers sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	passed := make(chan stackbuf.Buffer, 4)
	for id := range 4 {
		workers.Go(func() {
			for i := range rounds(300) {
				if err := churn(id, i, passed); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	collector.Wait()
}

// churn puts one Buffer through everything, passes it on, and looks at one that was passed on by some goroutine.
func churn(id, i int, passed chan stackbuf.Buffer) error {
	var b stackbuf.Buffer
	want := fmt.Sprintf("%d/%d:", id, i)
	b.WriteString(want)
	kept := make([]stackbuf.Buffer, 3)
	for j := range kept {
		kept[j] = b
		b.WriteString(text(40 * j))
		want += text(40 * j)
		b.Grow(i % 200)
	}
	if b.String() != want {
		return fmt.Errorf("%q became %q", want, b.String())
	}
	b.Next(b.Len() - i%64)
	want = want[len(want)-i%64:]
	b.Shrink()
	garbage := strings.Repeat("garbage", 100)
	if b.String() != want || len(garbage) != 700 {
		return fmt.Errorf("%q became %q", want, b.String())
	}
	for j := range kept[:2] { // the third one shares its memory with b as it was
		if got := kept[j].String(); !strings.HasPrefix(got, fmt.Sprintf("%d/%d:", id, i)) {
			return fmt.Errorf("a copy became %q", got)
		}
	}
	var sum stackbuf.Buffer
	fmt.Fprintf(&sum, "%d:%s", len(want), want)
	passed <- sum
	got := <-passed
	var n int
	contents := got.String()
	if _, err := fmt.Sscanf(contents, "%d:", &n); err != nil {
		return err
	}
	if _, rest, _ := strings.Cut(contents, ":"); len(rest) != n {
		return fmt.Errorf("what was passed on is %q", contents)
	}
	return stackbuf.Broken(&got)
}
