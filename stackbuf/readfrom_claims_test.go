package stackbuf_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/bits"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace-io/millrace/stackbuf"
)

// A lie is a source that claims to have n bytes.
type lie struct {
	claim  func(r io.Reader, n int64) io.Reader
	atOnce int // so many are believed before any has come
}

var lies = map[string]lie{
	"Len": {
		func(r io.Reader, n int64) io.Reader {
			return withLen{r, int(max(math.MinInt, min(n, math.MaxInt)))}
		}, stackbuf.BelieveSize,
	},
	"Size": {
		func(r io.Reader, n int64) io.Reader { return withSize{r, n} }, stackbuf.BelieveSize,
	},
	"limit": {
		func(r io.Reader, n int64) io.Reader { return io.LimitReader(r, n) }, stackbuf.BelieveLimit,
	},
	"limit of a lie": {
		func(r io.Reader, n int64) io.Reader { return io.LimitReader(withSize{r, n}, n) }, stackbuf.BelieveSize,
	},
	"section": {
		func(r io.Reader, n int64) io.Reader { return io.NewSectionReader(&inOrder{r, 1 << 40}, 1<<40, n) }, stackbuf.BelieveLimit,
	},
}

// inOrder is an io.ReaderAt that can only be read in order.
type inOrder struct {
	io.Reader
	at int64
}

func (o *inOrder) ReadAt(p []byte, at int64) (int, error) {
	if at != o.at {
		return 0, fmt.Errorf("read at %d, want %d", at, o.at)
	}
	n, err := io.ReadFull(o.Reader, p)
	o.at += int64(n)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}

// These are the figures in ReadFrom's comment.
func TestHowFarClaimsAreBelieved(t *testing.T) {
	if stackbuf.BelieveLimit != 64<<10 || stackbuf.BelieveSize != 16<<20 || stackbuf.BelieveTimes != 64 {
		t.Errorf("limits are believed up to %d bytes, sizes up to %d, and then up to %d times what has come",
			stackbuf.BelieveLimit, stackbuf.BelieveSize, stackbuf.BelieveTimes)
	}
}

// Whoever claims much and gives little gets little memory: as much as the package says, at most.
func TestMemoryIsBoundedWhenSourcesLie(t *testing.T) {
	for what, lie := range lies {
		for _, claim := range []int64{math.MaxInt64, 1 << 30} {
			for _, n := range []int{0, 1025, 70_000} {
				var b stackbuf.Buffer
				var before, after runtime.MemStats
				src := lie.claim(strings.NewReader(text(n)), claim)
				runtime.ReadMemStats(&before)
				m, err := b.ReadFrom(src)
				runtime.ReadMemStats(&after)
				what := fmt.Sprintf("%s of %d that has %d", what, claim, n)
				if m != int64(n) || err != nil {
					t.Errorf("%s: ReadFrom = %d, %v", what, m, err)
				}
				check(t, what, &b, text(n))
				most := max(lie.atOnce, stackbuf.BelieveTimes*n)
				if b.Cap() > fitting(most) {
					t.Errorf("%s: the memory has %d bytes, want at most %d", what, b.Cap(), most)
				}
				// Twice, because -race makes new memory twice.
				if took := int(after.TotalAlloc - before.TotalAlloc); took > 2*(5*most/4+lie.atOnce)+100_000 {
					t.Errorf("%s: %d bytes were allocated, want about %d at most", what, took, most+lie.atOnce)
				}
			}
		}
	}
}

// Little by little the memory never gets ahead of what has come by more than that.
func TestMemoryFollowsWhatComes(t *testing.T) {
	for what, lie := range lies {
		if what == "section" { // it reads what there is room for
			continue
		}
		var b stackbuf.Buffer
		come := 0
		b.ReadFrom(lie.claim(readerFunc(func(p []byte) (int, error) {
			if most := max(lie.atOnce, stackbuf.BelieveTimes*come); b.Cap() > 5*most/4 {
				t.Errorf("%s: after %d bytes the memory has %d, want about %d at most", what, come, b.Cap(), most)
			}
			if come > 600_000 {
				return 0, io.EOF
			}
			n := min(len(p), 1+come/50)
			come += n
			return n, nil
		}), 1<<62))
	}
}

// A claim that is true costs few growths, however large it is: each is for 64 times what has come.
func TestLargeClaimsThatAreTrue(t *testing.T) {
	for what, lie := range lies {
		n := int64(3*lie.atOnce/2 + 1<<20)
		var b stackbuf.Buffer
		growths, size := 0, b.Cap()
		src := readerFunc(func(p []byte) (int, error) {
			if b.Cap() != size {
				growths++
				size = b.Cap()
			}
			return min(len(p), 1<<20), nil
		})
		if m, err := b.ReadFrom(io.LimitReader(lie.claim(src, n), n)); m != n || err != nil {
			t.Errorf("%s: ReadFrom = %d, %v", what, m, err)
		}
		if most := 2 + bits.Len64(uint64(n)/uint64(lie.atOnce))/6; growths > most {
			t.Errorf("%s: %d bytes took %d growths, want at most %d", what, n, growths, most)
		}
		if most := fitting(int(n)); b.Cap() > most {
			t.Errorf("%s: %d bytes are in memory of %d, want at most %d", what, n, b.Cap(), most)
		}
	}
}

// A claim of less than there is costs growths, and no byte.
func TestClaimsOfTooLittle(t *testing.T) {
	for what, lie := range lies {
		if strings.Contains(what, "limit") || what == "section" { // there it is the truth
			continue
		}
		for _, n := range sizes {
			for _, claim := range []int64{math.MinInt64, -1 << 62, -1, 0, 1, int64(n / 2), int64(n - 1)} {
				for pace, slow := range paces {
					if n > 10_000 && pace == "bytes" {
						continue
					}
					var b stackbuf.Buffer
					m, err := b.ReadFrom(lie.claim(slow(strings.NewReader(text(n))), claim))
					if m != int64(n) || err != nil {
						t.Errorf("%s of %d: ReadFrom of %d = %d, %v", what, claim, n, m, err)
					}
					check(t, fmt.Sprint(what, " of ", claim, " that has ", n), &b, text(n))
					if most := max(64, 5*n/2); b.Cap() > most {
						t.Errorf("%s of %d that has %d: the memory has %d bytes, want at most %d", what, claim, n, b.Cap(), most)
					}
				}
			}
		}
	}
}

// A claim of a little too much costs that, and no more.
func TestClaimsOfTooMuch(t *testing.T) {
	for what, lie := range lies {
		for _, n := range sizes {
			for _, more := range []int{1, 64, n, 1000} {
				var b stackbuf.Buffer
				src := lie.claim(iotest.HalfReader(strings.NewReader(text(n))), int64(n+more))
				if m, err := b.ReadFrom(src); m != int64(n) || err != nil {
					t.Errorf("%s of %d: ReadFrom of %d = %d, %v", what, n+more, n, m, err)
				}
				check(t, fmt.Sprint(what, " of ", n+more, " that has ", n), &b, text(n))
				if most := max(64, fitting(n+more)); b.Cap() > most {
					t.Errorf("%s of %d that has %d: the memory has %d bytes, want at most %d", what, n+more, n, b.Cap(), most)
				}
			}
		}
	}
}

// A section that was left behind its end has nothing, and of one that was begun the rest counts.
func TestSectionsThatWereMoved(t *testing.T) {
	src := io.NewSectionReader(strings.NewReader(text(1000)), 0, 1000)
	for _, at := range []int64{0, 500, 999, 1000, 5000} {
		src.Seek(at, io.SeekStart)
		left := int(max(0, 1000-at))
		var b stackbuf.Buffer
		if n, err := b.ReadFrom(src); n != int64(left) || err != nil {
			t.Errorf("ReadFrom behind %d = %d, %v", at, n, err)
		}
		check(t, fmt.Sprint("behind ", at), &b, text(1000)[1000-left:])
		if b.Cap() > max(64, fitting(left)) {
			t.Errorf("%d bytes are in memory of %d", left, b.Cap())
		}
	}
}

// liar says that it has filled what it was given, and has not touched it.
type liar struct{ done bool }

func (l *liar) Read(p []byte) (int, error) {
	if l.done {
		return 0, io.EOF
	}
	l.done = true
	return len(p), nil
}

// A source that has written less than it says cannot show what went through another Buffer before.
func TestReadFromALiarShowsNobodyElsesBytes(t *testing.T) {
	for range 100 {
		var secret stackbuf.Buffer
		secret.ReadFrom(&only{strings.NewReader(strings.Repeat("secret", 100))})
		secret.Truncate(60)
		secret.Shrink()
		secret.WriteTo(io.Discard)
		var b stackbuf.Buffer
		b.ReadFrom(&liar{})
		if bytes.Contains(b.Bytes(), []byte("sec")) {
			t.Fatalf("of somebody else's: %q", b.Bytes()[:100])
		}
	}
}
