package chunk_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// Parts of a file in any order and of any length are copied as by io.Copy, with reads by the caller
// in between.
func TestCopyLikeIOCopy(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	data := someBytes(400_000)
	for _, dst := range copyTargets {
		if dst.slow {
			continue
		}
		t.Run(dst.name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, 2))
			f, slow := fileOf(t, data), fileOf(t, data)
			w, got := dst.open(t)
			var want bytes.Buffer
			for range 40 {
				makeSource := randomPart(rnd, int64(len(data)))
				src, slowSrc := makeSource(f), makeSource(slow)
				n, err := io.Copy(struct{ io.Writer }{&want}, slowSrc)
				report, gotErr := chunk.Copy(context.Background(), w, src)
				if report.Bytes != n || gotErr != err {
					t.Fatalf("%+v, %v, want %d bytes, %v", report, gotErr, n, err)
				}
				if sum := report.Sendfile + report.Splice + report.CopyFileRange + report.Copied; sum != n {
					t.Fatalf("%+v: the ways add up to %d", report, sum)
				}
				at, _ := f.Seek(0, io.SeekCurrent)
				if slowAt, _ := slow.Seek(0, io.SeekCurrent); at != slowAt {
					t.Fatalf("the file is at %d, want %d", at, slowAt)
				}
				var next, slowNext [1]byte
				gone, _ := src.Read(next[:])
				if want, _ := slowSrc.Read(slowNext[:]); gone != want || next != slowNext {
					t.Fatalf("%d bytes follow: %q, want %d: %q", gone, next, want, slowNext)
				}
				if l, ok := src.(*io.LimitedReader); ok &&
					max(l.N, 0) != max(slowSrc.(*io.LimitedReader).N, 0) {
					t.Fatalf("%d left of the limit, want %d", l.N, slowSrc.(*io.LimitedReader).N)
				}
			}
			if !bytes.Equal(got(), want.Bytes()) {
				t.Error("other bytes arrived")
			}
		})
	}
}

// randomPart returns a function that makes the same source from either file.
func randomPart(rnd *rand.Rand, size int64) func(f *os.File) io.Reader {
	kind, from, n := rnd.IntN(4), rnd.Int64N(size+size/8), rnd.Int64N(size/4)
	if rnd.IntN(8) == 0 {
		n = rnd.Int64N(3) - 1
	}
	return func(f *os.File) io.Reader {
		if kind != 3 {
			_, _ = f.Seek(from, io.SeekStart)
		}
		switch kind {
		case 0:
			return f
		case 1:
			s := io.NewSectionReader(f, from, max(n, 0))
			_, _ = s.Seek(n/3, io.SeekStart)
			return s
		}
		return &io.LimitedReader{R: f, N: n}
	}
}

// Whenever the context ends, the report counts the bytes that have arrived, which are the first
// bytes of the source. A file is positioned directly after them, so that a second Copy completes
// the first.
func TestCopyCancelledAtAnyMoment(t *testing.T) {
	leaktest.Check(t, millrace.DefaultPool())
	data := someBytes(600_000)
	for _, src := range copySources {
		for _, dst := range copyTargets {
			if dst.slow || dst.name == "TLS" { // the connection is lost after an incomplete Write
				continue
			}
			t.Run(src.name+" to "+dst.name, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(3, uint64(len(src.name)*len(dst.name))))
				for range 2 {
					must(t, copyInTwo(t, src, dst, data, rnd))
				}
			})
		}
	}
}

// copyInTwo copies data with two calls. The context of the first ends at a random moment.
func copyInTwo(t *testing.T, src copySource, dst copyTarget, data []byte, rnd *rand.Rand) error {
	r := src.open(t, data)
	w, got := dst.open(t)
	ctx, cancel := context.WithTimeout(context.Background(),
		time.Duration(rnd.IntN(700))*time.Microsecond)
	defer cancel()
	first, err := chunk.Copy(ctx, w, r)
	if err != nil && err != ctx.Err() {
		return fmt.Errorf("%+v, %w", first, err)
	}
	if err == nil && first.Bytes != int64(len(data)) {
		return fmt.Errorf("%+v without an error", first)
	}
	if src.kind == "file" {
		second, err := chunk.Copy(context.Background(), w, r)
		if err != nil || first.Bytes+second.Bytes != int64(len(data)) {
			return fmt.Errorf("%+v and %+v, %w", first, second, err)
		}
		first.Bytes += second.Bytes
	}
	if b := got(); int64(len(b)) != first.Bytes || !bytes.Equal(b, data[:len(b)]) {
		return fmt.Errorf("%d bytes arrived of %+v", len(b), first)
	}
	return nil
}
