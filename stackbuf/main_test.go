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

// narrow is set if an allocation of almost math.MaxInt bytes could be attempted, which would end
// the process.
const narrow = strconv.IntSize == 32

// rounds returns n, or n/10 with -short.
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

// A step is one Read of a script: it returns n bytes and err.
type step struct {
	n   int
	err error
}

const (
	beyond = math.MaxInt - 1 // one byte more than there is room for
	panics = math.MaxInt
)

// A script is a source that performs its steps in order, and then returns io.EOF. Its bytes are
// those of text.
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

// withLen is a source with a Len method, whose result may be wrong.
type withLen struct {
	io.Reader
	n int
}

func (w withLen) Len() int { return w.n }

// only hides all methods except Read.
type only struct{ io.Reader }

// A taker is a target that accepts at most so many bytes of each Write and then returns err. It may
// report extra bytes more than it accepted, or panic.
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
