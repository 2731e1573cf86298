package redisbuf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A tape is a connection on which the server has already sent everything. Each Read returns at most
// step bytes. It accepts some bytes, and is then closed.
type tape struct {
	net.Conn // nil, because other methods are not called
	left     []byte
	step     int
	takes    int
	took     []byte
}

// tapeOf returns a connection to a server that accepts anything, and has sent said.
func tapeOf(said string) (*conn, *tape) {
	p := &tape{left: []byte(said), step: len(said), takes: math.MaxInt}
	return newConn(p, 0, 0), p
}

func (p *tape) Read(b []byte) (int, error) {
	n := copy(b[:min(len(b), p.step)], p.left)
	p.left = p.left[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (p *tape) Write(b []byte) (int, error) {
	n := min(len(b), p.takes-len(p.took))
	p.took = append(p.took, b[:n]...)
	if n < len(b) {
		return n, &net.OpError{Op: "write", Err: syscall.EPIPE}
	}
	return n, nil
}

func (p *tape) SetReadDeadline(time.Time) error  { return nil }
func (p *tape) SetWriteDeadline(time.Time) error { return nil }

const (
	short     = "the connection ended"
	malformed = "no reply"
	unknown   = "not for this oracle"
)

// slowReply parses the next reply of s in a simple way. It returns the expected result of a Client:
// the value, or an error's text. rest is nil if nothing more can be read.
func slowReply(s []byte) (value []byte, failure string, rest []byte) {
	line, rest, ok := slowLine(s)
	if !ok {
		return nil, line, nil
	}
	switch line[0] {
	case '-':
		return nil, line[1:], rest
	case '_':
		return nil, "redis: nil", rest
	case '>', '|', '!':
		return nil, unknown, nil
	case '*':
		if n, err := strconv.Atoi(line[1:]); err == nil && n == -1 {
			return nil, "redis: nil", rest
		}
	case '$':
		n, err := strconv.Atoi(line[1:])
		switch {
		case err != nil || n < -1 || n > maxValue || strings.HasPrefix(line, "$+"):
			return nil, malformed, nil
		case n == -1:
			return nil, "redis: nil", rest
		case len(rest) < n+2:
			return nil, short, nil
		case rest[n] != '\r' || rest[n+1] != '\n':
			return nil, malformed, nil
		}
		return rest[:n], "", rest[n+2:]
	}
	return nil, malformed, nil
}

func slowLine(s []byte) (line string, rest []byte, ok bool) {
	head, rest, found := bytes.Cut(s, []byte("\n"))
	switch {
	case len(head) >= lineLen:
		return malformed, nil, false
	case !found:
		return short, nil, false
	case len(head) < 2 || head[len(head)-1] != '\r':
		return malformed, nil, false
	}
	return string(head[:len(head)-1]), rest, true
}

// checkReply compares the received value with the oracle's, and reports whether another reply may
// follow.
func checkReply(t *testing.T, what string, c *conn, have int, got []byte, err error, value []byte,
	failure string) bool {
	t.Helper()
	var small *BufferTooSmallError
	switch {
	case failure == unknown:
		return false
	case errors.As(err, &small):
		if int(small.Have) != have || small.Need <= small.Have {
			t.Fatalf("%s: %v, want the sizes of the call", what, err)
		}
		if !c.broken && (failure != "" || len(value) != int(small.Need)) {
			t.Fatalf("%s: %v, the oracle has %d bytes and %q", what, err, len(value), failure)
		}
		return !c.broken
	case failure == "" && err == nil:
		if !bytes.Equal(got, value) {
			t.Fatalf("%s: got %.60q, the oracle has %.60q", what, got, value)
		}
		return true
	case failure == short:
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%s: %v, the oracle: %s", what, err, failure)
		}
	case failure == malformed:
		if !isA[*ProtocolError](err) {
			t.Fatalf("%s: %v, the oracle: %s", what, err, failure)
		}
	default:
		if err == nil || err.Error() != failure || !isServerError(err) {
			t.Fatalf("%s: %v, the oracle: %q", what, err, failure)
		}
		return true
	}
	return false
}

// playBoth passes two replies to a connection and to the oracle.
func playBoth(t *testing.T, stream []byte, have, step int) {
	t.Helper()
	what := fmt.Sprintf("%.60q into %d, %d bytes each", stream, have, step)
	c := newConn(&tape{left: bytes.Clone(stream), step: step}, 0, 0)
	rest := stream
	for range 2 {
		buf := guarded(have)
		n, err := c.readInto(buf)
		intact(buf)
		value, failure, after := slowReply(rest)
		if !checkReply(t, what, c, have, buf[:n], err, value, failure) || len(after) == 0 {
			return
		}
		rest, what = after, what+", the second one"
	}
}

// replyStreams are streams of two replies.
func replyStreams() (streams []string) {
	for _, size := range []int{0, 1, 2, 9, 10, 11, 99, 100, 101, 1000, lineLen - 10, lineLen,
		lineLen + 10} {
		v := string(randomValue(size))
		streams = append(streams, fmt.Sprintf("$%d\r\n%s\r\n$3\r\nabc\r\n", size, v),
			fmt.Sprintf("$0\r\n\r\n$%d\r\n%s\r\n", size, v))
	}
	return append(streams, "$-1\r\n$1\r\nx\r\n", "_\r\n_\r\n", "-ERR no\r\n$1\r\nx\r\n",
		"$000000000000000003\r\nabc\r\n-A b\r\n",
		"$5\r\nabc\r\n\r\n", "$3\r\nabcd\r\n", "$3\nabc\r\n", "$x\r\n", "$-2\r\n",
		"$4611686018427387904\r\nabc", "$99999\r\n",
		"+OK\r\n", "\r\n", "\n", "$\r\n", "$+3\r\nabc\r\n", "$3\r\nabc", "$3\r\nabc\r", "*1\r\n",
		"")
}

func TestReplyInEverySplit(t *testing.T) {
	for _, s := range replyStreams() {
		for _, have := range []int{0, 1, 3, 9, 10, 100, 200, 2 * lineLen} {
			for step := 1; step <= len(s)+1; step += 1 + step/8 {
				playBoth(t, []byte(s), have, step)
			}
		}
	}
}

func FuzzReply(f *testing.F) {
	for i, s := range replyStreams() {
		f.Add([]byte(s), uint16(i*7%200), uint16(i))
	}
	f.Fuzz(func(t *testing.T, stream []byte, have, step uint16) {
		playBoth(t, stream, int(have), int(step)+1)
	})
}

// answerInPieces answers each request on conn with the next reply, in pieces.
func answerInPieces(t *testing.T, conn net.Conn, replies <-chan [][]byte) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		request := make([]byte, 1000)
		for pieces := range replies {
			if _, err := conn.Read(request); err != nil {
				t.Error(err)
				return
			}
			for _, p := range pieces {
				_, _ = conn.Write(p)
			}
		}
	}()
	return func() { <-done }
}

// extras are data that a server may send in addition to replies. The first ones may also follow a
// reply; an attribute belongs to the data after it.
var extras = []string{"", "", ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n", ">0\r\n",
	">1\r\n$9000\r\n" + strings.Repeat("p", 9000) + "\r\n", "|1\r\n+key\r\n:90\r\n"}

const extrasBehind = 5

// randomReply returns a reply in random pieces, and its meaning.
func randomReply() (r [][]byte, value []byte, want error) {
	value = randomValue(rand.N(1 << rand.N(17)))
	answer := fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
	switch rand.N(10) {
	case 0:
		answer, want = "_\r\n", redis.Nil
	case 1:
		answer, want = "-WRONGTYPE no\r\n", serverError("WRONGTYPE no")
	}
	s := []byte(extras[rand.N(len(extras))] + answer + extras[rand.N(extrasBehind)])
	for len(s) > 0 {
		n := min(len(s), 1+rand.N(1<<rand.N(17)))
		r, s = append(r, s[:n]), s[n:]
	}
	return r, value, want
}

// Over a real socket the kernel splits the replies. Pushes are skipped.
func TestRepliesOverTCP(t *testing.T) {
	client, server := tcpPair(t)
	replies := make(chan [][]byte)
	wait := answerInPieces(t, server, replies)
	c := newConn(client, 5*time.Second, 5*time.Second)
	defer c.close()
	ctx := bounded(t)
	values := 0
	for range 3000 {
		r, value, want := randomReply()
		replies <- r
		have := rand.N(len(value)*2 + 2)
		buf := guarded(have)
		op := getOf("k", buf)
		err := c.run(ctx, op)
		switch {
		case want != nil:
			if err != want {
				t.Fatalf("%v, want %v", err, want)
			}
		case isA[*BufferTooSmallError](err):
			if len(value) <= have {
				t.Fatal(err)
			}
		case err != nil:
			t.Fatal(err)
		case !bytes.Equal(intact(buf)[:op.n], value):
			t.Fatalf("another value of %d bytes, not %d", op.n, len(value))
		default:
			values++
		}
		if c.broken {
			t.Fatal("the connection is lost")
		}
	}
	close(replies)
	wait()
	if values < 500 {
		t.Fatalf("only %d values", values)
	}
}
