package chunk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/chunk"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

// A script returns one of its parts from each Read, and then its error.
type script struct {
	parts []string
	err   error
	reads int
}

func (s *script) Read(p []byte) (int, error) {
	s.reads++
	if len(s.parts) == 0 {
		return 0, s.err
	}
	n := copy(p, s.parts[0])
	if s.parts[0] = s.parts[0][n:]; s.parts[0] == "" {
		s.parts = s.parts[1:]
	}
	return n, nil
}

func next(t *testing.T, r *chunk.Reader) string {
	t.Helper()
	ref, err := r.Next(t.Context())
	must(t, err)
	defer ref.Release()
	return string(ref.Bytes())
}

// fixed cuts every n bytes.
func fixed(n int) chunk.Cutter { return chunk.CutFunc(func([]byte) int { return n }) }

// chunksOf returns the chunks before the error, and the error.
func chunksOf(r *chunk.Reader) (all []string, err error) {
	for {
		ref, err := r.Next(context.Background())
		if err != nil {
			return all, err
		}
		all = append(all, string(ref.Bytes()))
		ref.Release()
	}
}

func TestNothingHappensBeforeTheFirstNext(t *testing.T) {
	pool := millrace.NewPool()
	src, before := &script{err: io.EOF}, runtime.NumGoroutine()
	r := chunk.NewReader(src, chunk.From(pool))
	if src.reads > 0 || pool.Stats().Taken > 0 || runtime.NumGoroutine() > before {
		t.Errorf("%d reads, %d blocks", src.reads, pool.Stats().Taken)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Next(t.Context()); err != chunk.ErrClosed {
		t.Errorf("Next after Close = %v", err)
	}
}

func TestErrorComesAfterTheData(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name   string
		cutter chunk.Cutter
		in     string
		err    error
		want   []string
	}{
		{"nothing", chunk.Lines(), "", io.EOF, nil},
		{"nothing but an error", chunk.Lines(), "", broken, nil},
		{"lines", chunk.Lines(), "a\nb\n", broken, []string{"a\nb\n"}},
		{"half a line", chunk.Lines(), "a\nb", broken, []string{"a\n", "b"}},
		{"half a value", chunk.JSON(), `{}{"a`, broken, []string{`{}`, `{"a`}},
		{"half a record", fixed(2), `12345`, broken, []string{`1234`, `5`}},
		{"the last line needs no end", chunk.Lines(), "a\nb", io.EOF, []string{"a\nb"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, src := range []io.Reader{
				&script{parts: []string{test.in}, err: test.err},
				iotest.DataErrReader(&script{parts: []string{test.in}, err: test.err}),
			} {
				r := chunk.NewReader(src, chunk.At(test.cutter), chunk.ReadInNext())
				for _, want := range [][]string{test.want, nil} { // the second call returns only the error
					if all, err := chunksOf(r); !slices.Equal(all, want) || err != test.err {
						t.Errorf("%q, %v; want %q, %v", all, err, want, test.err)
					}
				}
				r.Close()
			}
		})
	}
}

// If the Cutter reports an invalid record, Next returns the records before it, and then an error.
func TestNoRecord(t *testing.T) {
	tens := chunk.CutFunc(func(p []byte) int {
		if p[0] == '-' {
			return -1
		}
		return 10
	})
	r := chunk.NewReader(strings.NewReader("0123456789-"), chunk.At(tens), chunk.Size(4))
	defer r.Close()
	all, err := chunksOf(r)
	if !slices.Equal(all, []string{"0123456789"}) || !errors.Is(err, chunk.ErrNoRecord) ||
		err.Error() != "chunk: record at offset 10: not a record" {
		t.Errorf("%q, %v, want the bytes before the offset, and ErrNoRecord", all, err)
	}
}

// An impossibly large length is refused before memory is allocated for it.
func TestKnownLengthIsRefusedAtOnce(t *testing.T) {
	pool := millrace.NewPool()
	src := &script{parts: []string{"x", "y"}, err: io.EOF}
	huge := chunk.CutFunc(func([]byte) int { return math.MaxInt })
	r := chunk.NewReader(src, chunk.From(pool), chunk.Size(512), chunk.At(huge))
	defer r.Close()
	if all, err := chunksOf(r); !errors.Is(err, chunk.ErrTooLong) || len(all) > 0 {
		t.Errorf("%q, %v, want ErrTooLong and no chunk", all, err)
	}
	if s := pool.Stats(); s.HighWater > 512 {
		t.Errorf("%d bytes were taken", s.HighWater)
	}
}

// If the length of a record is known, the block gets the needed size in one step.
func TestKnownLengthTakesOneBlock(t *testing.T) {
	pool := millrace.NewPool()
	leaktest.Check(t, pool)
	r := chunk.NewReader(&endless{}, chunk.From(pool), chunk.Size(512), chunk.Depth(1),
		chunk.At(fixed(100<<10)))
	defer r.Close()
	if got := next(t, r); len(got) != 100<<10 {
		t.Errorf("%d bytes, want one chunk of all", len(got))
	}
	r.Close()
	if s := pool.Stats(); s.Taken > 4 { // two records, and the beginning of each
		t.Errorf("%d blocks were taken", s.Taken)
	}
}

// A record that fits into a chunk is not too long.
func TestMaxRecordBelowSize(t *testing.T) {
	r := chunk.NewReader(strings.NewReader("a long line\n"), chunk.At(chunk.Lines()),
		chunk.Size(12), chunk.MaxRecord(1))
	defer r.Close()
	if all, err := chunksOf(r); len(all) != 1 || err != io.EOF {
		t.Errorf("%q, %v, want one chunk", all, err)
	}
	r = chunk.NewReader(strings.NewReader("a long line\n"), chunk.At(chunk.Lines()), chunk.Size(4),
		chunk.MaxRecord(1))
	defer r.Close()
	var bad *chunk.RecordError
	if all, err := chunksOf(r); !errors.As(err, &bad) || bad.Limit != 4 {
		t.Errorf("%q, %v, want the limit of 4", all, err)
	}
}

// A temporary error, such as a deadline's, neither loses nor splits a record.
func TestTimeoutPasses(t *testing.T) {
	src := &script{parts: []string{"a\nb"}, err: os.ErrDeadlineExceeded}
	r := chunk.NewReader(src, chunk.At(chunk.Lines()))
	defer r.Close()
	all, err := chunksOf(r)
	if !slices.Equal(all, []string{"a\n"}) || err != os.ErrDeadlineExceeded {
		t.Errorf("%q, %v, want the record before the timeout", all, err)
	}
	// Next reads again and fails again.
	if all, err := chunksOf(r); all != nil || err != os.ErrDeadlineExceeded {
		t.Errorf("%q, %v, want the timeout again", all, err)
	}
	src.parts, src.err = []string{"c\nd"}, io.EOF
	all, err = chunksOf(r)
	if got := strings.Join(all, ""); got != "bc\nd" || err != io.EOF {
		t.Errorf("%q, %v, want the rest after the timeout", all, err)
	}
}

// Reads that fail with a deadline do not count as reads without progress, however many there are.
// Later reads without progress still count.
func TestNoProgressAfterDeadlines(t *testing.T) {
	timeouts := 250
	r := chunk.NewReader(reads(func([]byte) (int, error) {
		if timeouts == 0 {
			return 0, nil
		}
		timeouts--
		return 0, os.ErrDeadlineExceeded
	}))
	defer r.Close()
	for range 250 {
		if _, err := r.Next(t.Context()); err != os.ErrDeadlineExceeded {
			t.Fatal(err)
		}
	}
	if _, err := r.Next(t.Context()); err != io.ErrNoProgress {
		t.Error(err)
	}
}

// A regular file is read without a goroutine, in whole blocks. A file in /proc, whose Read may
// block, is not.
func TestFile(t *testing.T) {
	in := bytes.Repeat([]byte("a line of a file\n"), 50_000)
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, in, 0o600))
	f, err := os.Open(path)
	must(t, err)
	before := runtime.NumGoroutine()
	r := chunk.NewReader(f, chunk.At(chunk.Lines()))
	defer f.Close()
	var got []byte
	for p, err := range r.Chunks(t.Context()) {
		must(t, err)
		if len(got) == 0 && runtime.NumGoroutine() > before {
			t.Error("reads a file on a goroutine from the start")
		}
		got = append(got, p...)
	}
	if !bytes.Equal(got, in) {
		t.Errorf("%d bytes, want %d", len(got), len(in))
	}
	r.Close()
	if f, err := os.Open("/proc/self/status"); err == nil {
		defer f.Close()
		r := chunk.NewReader(f, chunk.Size(5), chunk.Depth(1))
		defer r.Close()
		if s := next(t, r); s != "Name:" || !r.Running() {
			t.Errorf("%q, on a goroutine: %v", s, r.Running())
		}
	}
}

// Depth limits the chunks and the memory that are read ahead.
func TestDepthBoundsWhatIsReadAhead(t *testing.T) {
	for _, depth := range []int{1, 3, 7} {
		synctest.Test(t, func(t *testing.T) {
			pool, src := millrace.NewPool(), &endless{}
			r := chunk.NewReader(src, chunk.Size(1024), chunk.Depth(depth), chunk.From(pool))
			for i := range 5 {
				ref, err := r.Next(t.Context())
				must(t, err)
				synctest.Wait()
				if want := (i + 1 + depth) * 1024; src.given != want {
					t.Errorf("depth %d: %d bytes read after %d chunks, want %d", depth, src.given,
						i+1, want)
				}
				if want := int64(depth + 1); pool.Stats().InUseBlocks != want {
					t.Errorf("depth %d: %d blocks in use, want %d", depth, pool.Stats().InUseBlocks,
						want)
				}
				ref.Release()
			}
			r.Close()
			if n := pool.Stats().InUseBlocks; n != 0 {
				t.Errorf("%d blocks in use after Close", n)
			}
		})
	}
}

// endless returns as many bytes as requested.
type endless struct{ given int }

func (e *endless) Read(p []byte) (int, error) {
	e.given += len(p)
	return len(p), nil
}

// A chunk that is returned early does not hold a block of 64 KiB.
func TestTrickleTakesLittleMemory(t *testing.T) {
	pool := millrace.NewPool()
	leaktest.Check(t, pool)
	w, r := newPipe(t, chunk.At(chunk.Lines()), chunk.From(pool))
	var kept millrace.Chain
	for range 100 {
		go w.Write([]byte("a short line\n"))
		ref, err := r.Next(t.Context())
		must(t, err)
		kept.Append(&ref)
	}
	if s := pool.Stats(); s.InUse > 100*512+64<<10 {
		t.Errorf("%d bytes in use for 1300", s.InUse)
	}
	kept.Release()
}

// A Reader that begins at the Offset of another one returns the records that the other one has not
// returned.
func TestOffsetIsACheckpoint(t *testing.T) {
	const in = "one\n\ntwo\nthree, longer than a chunk\nfour"
	for kept := range 5 {
		r := chunk.NewReader(strings.NewReader(in), chunk.At(chunk.Lines()), chunk.Size(5))
		if r.Offset() != 0 {
			t.Errorf("Offset = %d before the first chunk", r.Offset())
		}
		var got strings.Builder
		for range kept {
			got.WriteString(next(t, r))
		}
		offset := r.Offset()
		r.Close()
		if r.Offset() != offset {
			t.Errorf("Offset = %d after Close, want %d", r.Offset(), offset)
		}
		r = chunk.NewReader(strings.NewReader(in[offset:]), chunk.At(chunk.Lines()))
		chunks, err := collect(t, r)
		must(t, err)
		got.Write(slices.Concat(chunks...))
		if got.String() != in {
			t.Errorf("after %d chunks and a restart at %d: %q", kept, offset, &got)
		}
	}
}

// The blocks of a part of many chunks of the largest Size all return to the Pool.
func TestLargestSizeIsPooled(t *testing.T) {
	pool := millrace.NewPool()
	leaktest.Check(t, pool)
	r := chunk.NewReader(io.LimitReader(&endless{}, 5<<20+1), chunk.From(pool), chunk.Size(1<<20))
	defer r.Close()
	var part millrace.Chain
	defer part.Release()
	for part.Len() <= 5<<20 {
		c, err := r.Next(t.Context())
		must(t, err)
		part.Append(&c)
	}
	if s := pool.Stats(); s.Oversize > 0 {
		t.Errorf("%d blocks are not from the Pool's classes", s.Oversize)
	}
}
