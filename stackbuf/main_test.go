package stackbuf_test

import (
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// narrow says that memory of almost math.MaxInt bytes is not out of the question, and to ask for it
// ends the process.
const narrow = strconv.IntSize == 32

// rounds is n, or a tenth of it when the tests are to be short.
func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// text returns n bytes without repetitions nearby, so that misplaced bytes show.
func text(n int) string {
	if n > len(long) {
		return strings.Repeat(period, n/len(period)+1)[:n]
	}
	return long[:n]
}

var (
	long   = strings.Repeat(period, 30)
	period = func() string {
		var b strings.Builder
		const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-"
		for i := range digits {
			b.WriteString(digits[i:] + digits[:i])
		}
		return b.String()
	}()
)

// Sources and targets with rare behaviour.

// A step is one Read of a script: it returns that many bytes, and err.
type step struct {
	n   int
	err error
}

const (
	beyond = math.MaxInt - 1 // one byte more than there is room for
	panics = math.MaxInt
)

// A script is a source that performs its steps one after the other, and then returns io.EOF. Its
// bytes are those of text.
type script struct {
	steps []step
	given int // bytes
}

func scripted(steps ...step) *script { return &script{steps: steps} }

func (s *script) Read(p []byte) (int, error) {
	if len(s.steps) == 0 {
		return 0, io.EOF
	}
	now := &s.steps[0]
	switch {
	case now.n == panics:
		clear(p)
		panic("the source panics")
	case now.n == beyond:
		s.steps = s.steps[1:]
		return len(p) + 1, now.err
	case now.n < 0:
		s.steps = s.steps[1:]
		return now.n, now.err
	}
	n := copy(p, text(s.given + now.n)[s.given:])
	s.given += n
	if now.n -= n; now.n > 0 {
		return n, nil
	}
	s.steps = s.steps[1:]
	return n, now.err
}

// withLen is a source that says how much it has, true or not.
type withLen struct {
	io.Reader
	n int
}

func (w withLen) Len() int { return w.n }

// only has nothing but Read.
type only struct{ io.Reader }

// A taker is a target that takes at most so many bytes of each Write and then returns err. It
// claims to have taken extra more than it did, or panics.
type taker struct {
	most   int
	err    error
	extra  int
	panics bool
	got    []byte
	calls  int
}

func (t *taker) Write(p []byte) (int, error) {
	t.calls++
	n := min(len(p), t.most)
	t.got = append(t.got, p[:n]...)
	if t.panics {
		panic("the target panics")
	}
	if t.extra != 0 {
		return len(p) + t.extra, t.err
	}
	return n, t.err
}
