package chunk_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); got != want {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	f()
}

func TestReaderOptionsOutOfRangePanic(t *testing.T) {
	for _, test := range []struct {
		want string
		f    func()
	}{
		{"chunk: Size(0) is below 1", func() { chunk.Size(0) }},
		{"chunk: Size(1048577) is above 1048576", func() { chunk.Size(1<<20 + 1) }},
		{"chunk: MaxRecord(2147483647) is above 1073741824",
			func() { chunk.MaxRecord(math.MaxInt32) }},
		{"chunk: Depth(0) is below 1", func() { chunk.Depth(0) }},
		{"chunk: MaxRecord(-1) is below 1", func() { chunk.MaxRecord(-1) }},
		{"chunk: At(nil)", func() { chunk.At(nil) }},
	} {
		mustPanic(t, test.want, test.f)
	}
}

func TestSecondNextPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, r := newPipe(t)
		go r.Next(context.Background())
		synctest.Wait()
		mustPanic(t, "chunk: Next while another goroutine is in it",
			func() { r.Next(context.Background()) })
	})
}

type reads func(p []byte) (int, error)

func (f reads) Read(p []byte) (int, error) { return f(p) }

// A panic in the source or in the cutter, on any goroutine, is passed on by Next, and nothing is
// leaked.
func TestPanicsComeOutOfNext(t *testing.T) {
	pool := millrace.NewPool()
	leaktest.Check(t, pool)
	const impossible = "chunk: the source returned an impossible count from Read"
	bad := chunk.CutFunc(func([]byte) int { panic("bad cutter") })
	worse := chunk.CutFunc(func(p []byte) int {
		if p[0] == 'b' {
			panic("bad cutter")
		}
		return 1
	})
	for _, test := range []struct {
		want string
		src  io.Reader
		opts []chunk.ReaderOption
	}{
		{"bad source", reads(func([]byte) (int, error) { panic("bad source") }), nil},
		{impossible, reads(func(p []byte) (int, error) { return len(p) + 1, nil }), nil},
		{impossible, reads(func([]byte) (int, error) { return -1, nil }), nil},
		{"chunk: the source's Read ended its goroutine",
			reads(func([]byte) (int, error) { runtime.Goexit(); return 0, nil }), nil},
		{"bad cutter", strings.NewReader("abc"), []chunk.ReaderOption{chunk.At(bad)}},
		{"bad cutter", strings.NewReader("aab"),
			[]chunk.ReaderOption{chunk.At(worse), chunk.Size(1), chunk.MaxRecord(4)}},
		{"bad cutter", io.MultiReader(strings.NewReader("abc")),
			[]chunk.ReaderOption{chunk.At(bad)}},
	} {
		r := chunk.NewReader(test.src, append(test.opts, chunk.From(pool))...)
		mustPanic(t, test.want, func() {
			for range 3 { // the third time at the latest
				ref, err := r.Next(t.Context())
				ref.Release()
				if err != nil {
					panic(err)
				}
			}
		})
		_, err := r.Next(t.Context())
		if want := "chunk: the source or the Cutter has panicked"; err == nil ||
			err.Error() != want {
			t.Errorf("after a panic (%s): %v", test.want, err)
		}
		r.Close()
	}
}
