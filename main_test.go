package millrace_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// until polls until done reports true. Only a failing test waits for long.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(20 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// rounds returns how many rounds of a test to run, fewer where each one costs more.
func rounds(n int) int {
	if testing.Short() || raceEnabled {
		n = n/4 + 1
	}
	if millrace.Invariants { // each share leaves two stacks
		n = n/4 + 1
	}
	return n
}

func second[T any](_ T, err error) error { return err }

// letters returns n bytes in which no two that are near are alike.
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

// addBlocks adds p to c in blocks of n bytes each, which are not neighbours.
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

// taken returns how many loans a call makes of the default pool.
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

// panicText returns what f panics with.
func panicText(f func()) (text string) {
	defer func() {
		if e := recover(); e != nil {
			text = fmt.Sprint(e)
		}
	}()
	f()
	return ""
}

// pattern is a source of bytes that can be checked wherever they end up: byte i is i*i/255, roughly.
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

// checkPattern checks that c holds the n bytes from at on.
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

// tcpPair returns the two ends of a TCP connection over loopback, which are closed when the test ends.
func tcpPair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}
