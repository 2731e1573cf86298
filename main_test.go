package millrace_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// newPool returns a Pool, and checks at the end of the test that all blocks have been returned.
func newPool(t testing.TB) *millrace.Pool {
	t.Helper()
	pool := millrace.NewPool()
	leaktest.Check(t, pool)
	return pool
}

// streamConn has the common methods of *net.TCPConn and *net.UnixConn.
type streamConn interface {
	net.Conn
	CloseWrite() error
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// rounds returns the number of rounds of a test. It is smaller if each round costs more.
func rounds(n int) int {
	if testing.Short() || raceEnabled {
		n = n/4 + 1
	}
	if millrace.Invariants { // two stacks are recorded for each share
		n = n/4 + 1
	}
	return n
}

func second[T any](_ T, err error) error { return err }

// letters returns n bytes without repetitions nearby.
func letters(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[i%62]
	}
	return p
}

// freeze makes a Ref of p, which must fit into a block.
func freeze(pool *millrace.Pool, p []byte) millrace.Ref {
	d := pool.Get(len(p))
	return d.Freeze(copy(d.Bytes(), p))
}

// addBlocks appends p to c in blocks of n bytes each, which are not adjacent.
func addBlocks(pool *millrace.Pool, c *millrace.Chain, p []byte, n int) {
	for len(p) > 0 {
		r := freeze(pool, p[:min(n, len(p))])
		p = p[r.Len():]
		c.Append(&r)
	}
}

// content returns a copy of c's bytes.
func content(c *millrace.Chain) []byte {
	p := make([]byte, c.Len())
	c.CopyTo(p)
	return p
}

// taken returns the number of blocks that f takes from the default pool.
func taken(f func()) int {
	before := millrace.DefaultPool().Stats().Taken
	f()
	return int(millrace.DefaultPool().Stats().Taken - before)
}

func readChain(t testing.TB, r *millrace.Reader, c *millrace.Chain, n int) {
	t.Helper()
	if err := r.ReadChain(c, n); err != nil {
		t.Fatal(err)
	}
}

// wantPanic checks that f panics with an error or a string that contains text.
func wantPanic(t testing.TB, what, text string, f func()) {
	t.Helper()
	if got := panicText(f); got == "" {
		t.Errorf("%s did not panic", what)
	} else if !strings.Contains(got, text) {
		t.Errorf("%s panicked with %v, want %q", what, got, text)
	}
}

// panicText returns the text of f's panic.
func panicText(f func()) (text string) {
	defer func() {
		if e := recover(); e != nil {
			text = fmt.Sprint(e)
		}
	}()
	f()
	return ""
}

// pattern is a source whose bytes can be checked at any offset: byte i is about i*i/255.
type pattern struct {
	at, end int
	most    int // bytes at a time
}

func (p *pattern) Read(b []byte) (int, error) {
	n := min(len(b), p.end-p.at, p.most)
	if n == 0 {
		return 0, io.EOF
	}
	for i := range b[:n] {
		b[i] = patternAt(p.at + i)
	}
	p.at += n
	return n, nil
}

func patternAt(i int) byte { return byte(i ^ i>>8 ^ i>>16) }

// checkPattern checks that c holds n bytes of the pattern from at.
func checkPattern(t testing.TB, c *millrace.Chain, at, n int) {
	t.Helper()
	if c.Len() != n {
		t.Errorf("%d bytes at %d, want %d", c.Len(), at, n)
	}
	for piece := range c.All() {
		for i, b := range piece {
			if want := patternAt(at + i); b != want {
				t.Errorf("byte %d is %#x, want %#x", at+i, b, want)
				return
			}
		}
		at += len(piece)
	}
}

// A program decides the steps of a test. Any string of bytes is a program, so random tests and fuzz
// tests share it.
type program []byte

// choose returns the next byte of the program, or 0 after its end.
func (p *program) choose() byte {
	if len(*p) == 0 {
		return 0
	}
	b := (*p)[0]
	*p = (*p)[1:]
	return b
}

// randomProgram returns a program that prefers a few operations, different ones each time. Some
// bugs need one operation often, others need many different ones.
func randomProgram(rng *rand.Rand) program {
	program := make([]byte, 20+rng.IntN(600))
	favourites := make([]byte, 1+rng.IntN(4))
	for i := range favourites {
		favourites[i] = byte(rng.Uint32())
	}
	for i := range program {
		if program[i] = byte(rng.Uint32()); rng.IntN(3) == 0 {
			program[i] = favourites[rng.IntN(len(favourites))]
		}
	}
	return program
}
