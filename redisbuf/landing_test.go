package redisbuf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A tape is a connection on which a server has said all that it is going to say. Each Read gives step bytes at most.
type tape struct {
	net.Conn
	left []byte
	step int
}

func (p *tape) Read(b []byte) (int, error) {
	n := copy(b[:min(len(b), p.step)], p.left)
	p.left = p.left[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (p *tape) Write(b []byte) (int, error)      { return len(b), nil }
func (p *tape) SetDeadline(time.Time) error      { return nil }
func (p *tape) SetReadDeadline(time.Time) error  { return nil }
func (p *tape) SetWriteDeadline(time.Time) error { return nil }
func (p *tape) Close() error                     { return nil }

const (
	tapeMaxValue = 1 << 16

	short     = "the connection ended"
	malformed = "no reply"
	unknown   = "not for this oracle"
)

// slowReply reads the next reply of s as one would without any haste. It returns what a Client says about it: the value,
// or an error's text. rest is nil if nothing more can be read.
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
		case err != nil || n < -1 || n > tapeMaxValue || len(line) > 19 || strings.HasPrefix(line, "$+"):
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
	case !found && len(s) >= maxLine:
		return malformed, nil, false
	case !found:
		return short, nil, false
	case len(head) < 2 || head[len(head)-1] != '\r':
		return malformed, nil, false
	}
	return string(head[:len(head)-1]), rest, true
}

// playReply has c receive a reply of which first bytes come at once, with a guess of guess bytes for the header.
func playReply(c *conn, t *tape, buf []byte, guess, first int) ([]byte, error) {
	size, got, err := int64(0), 0, error(nil)
	areas := stream{c.inbox.small[:guess], buf, c.inbox.small[guess:]}
	n := 0
	for _, area := range areas {
		n += copy(area, t.left[n:min(first, len(t.left))])
	}
	t.left = t.left[n:]
	var ok bool
	if n == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	if size, got, ok = c.land(n, guess, buf); !ok {
		size, got, err = c.askNext(buf)
	}
	return playRest(c, buf, size, got, err)
}

// playRest is what readToBuffer does.
func playRest(c *conn, buf []byte, size int64, got int, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if have := int64(len(buf)); size > have {
		return nil, c.refuse(size-int64(got), &BufferTooSmallError{Need: size, Have: have})
	}
	return buf[:size], c.readValue(buf[:size], got)
}

// checkReply compares what was received with what the oracle says, and reports whether there may be another reply.
func checkReply(t *testing.T, what string, c *conn, have int, got []byte, err error, value []byte, failure string) bool {
	t.Helper()
	var small *BufferTooSmallError
	var protocol *ProtocolError
	switch {
	case failure == unknown:
		return false
	case errors.As(err, &small):
		if int(small.Have) != have || small.Need <= small.Have {
			t.Fatalf("%s: %v", what, err)
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
		if !errors.As(err, &protocol) {
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

// playBoth plays two replies to a connection and to the oracle.
func playBoth(t *testing.T, stream []byte, have, guess, first, step int) {
	t.Helper()
	what := fmt.Sprintf("%.60q into %d, guess %d, %d at once, then %d each", stream, have, guess, first, step)
	player := &tape{left: bytes.Clone(stream), step: step}
	c := newConn(player, 0, 0, tapeMaxValue)
	must(t, c.begin(context.Background()))
	defer c.inbox.clear()
	buf := guarded(have)
	got, err := playReply(c, player, buf, guess, first)
	intact(buf)
	value, failure, rest := slowReply(stream)
	if !checkReply(t, what, c, have, got, err, value, failure) || len(rest) == 0 {
		return
	}
	buf = guarded(have)
	size, n, err := c.askNext(buf)
	got, err = playRest(c, buf, size, n, err)
	intact(buf)
	value, failure, _ = slowReply(rest)
	checkReply(t, what+", the second one", c, have, got, err, value, failure)
}

// landings are streams of two replies.
func landings() (streams []string) {
	for _, size := range []int{0, 1, 2, 9, 10, 11, 60, 90, 91, 92, 93, 94, 95, 99, 100, 101, 150, 1000} {
		v := string(randomValue(size))
		streams = append(streams, fmt.Sprintf("$%d\r\n%s\r\n$3\r\nabc\r\n", size, v), fmt.Sprintf("$0\r\n\r\n$%d\r\n%s\r\n", size, v))
	}
	return append(streams, "$-1\r\n$1\r\nx\r\n", "_\r\n_\r\n", "-ERR no\r\n$1\r\nx\r\n", "$000000000000000003\r\nabc\r\n-A b\r\n",
		"$5\r\nabc\r\n\r\n", "$3\r\nabcd\r\n", "$3\nabc\r\n", "$x\r\n", "$-2\r\n", "$4611686018427387904\r\nabc", "$99999\r\n",
		"+OK\r\n", "\r\n", "\n", "$\r\n", "$+3\r\nabc\r\n", "$3\r\nabc", "$3\r\nabc\r", "*1\r\n", "")
}

func TestLandingOfEverySplit(t *testing.T) {
	for _, s := range landings() {
		for _, have := range []int{0, 1, 3, 9, 10, 100, 200} {
			for guess := 4; guess <= 21; guess += 1 + len(s)/100 {
				for first := 1; first <= min(len(s), have+inboxLen); first += 1 + first/16 {
					playBoth(t, []byte(s), have, guess, first, 1000)
				}
				playBoth(t, []byte(s), have, guess, 1+len(s)/2, 1)
			}
		}
	}
}

func FuzzLanding(f *testing.F) {
	for i, s := range landings() {
		f.Add([]byte(s), uint16(i*7%200), uint8(i), uint16(i*5), uint8(i))
	}
	f.Fuzz(func(t *testing.T, stream []byte, have uint16, guess uint8, first uint16, step uint8) {
		playBoth(t, stream, int(have), 4+int(guess)%18, int(first)+1, int(step)+1)
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

// extras are what a server may say besides. The first ones may come behind a reply, too: an attribute is about what follows
// it, and the beginning of a long push is not kept.
var extras = []string{"", "", ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n", ">0\r\n",
	">1\r\n$200\r\n" + strings.Repeat("p", 200) + "\r\n", "|1\r\n+key\r\n:90\r\n"}

const extrasBehind = 4

// randomReply returns a reply in random pieces, and what it means.
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

// Over a real socket the kernel decides what comes together. What the server says besides is stepped over.
func TestLandingOverTCP(t *testing.T) {
	client, server := tcpPair(t)
	replies := make(chan [][]byte)
	wait := answerInPieces(t, server, replies)
	c := newConn(client, 5*time.Second, 5*time.Second, tapeMaxValue)
	ctx := bounded(t)
	values := 0
	for range 3000 {
		r, value, want := randomReply()
		replies <- r
		have := rand.N(len(value)*2 + 2)
		buf := guarded(have)
		op := call{verb: getToBuffer, key: "k", buf: buf}
		err := c.execute(ctx, &op)
		var small *BufferTooSmallError
		switch {
		case want != nil:
			if err != want {
				t.Fatalf("%v, want %v", err, want)
			}
		case errors.As(err, &small):
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
	c.inbox.clear()
}

// tcpPair returns the two ends of a TCP connection, which are closed when the test ends.
func tcpPair(t testing.TB) (client, server *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	accepted, err := l.Accept()
	must(t, err)
	t.Cleanup(func() {
		dialed.Close()
		accepted.Close()
	})
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}
