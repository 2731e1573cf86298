package redisbuf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/redistest"
)

// calls returns how often the server was sent a command.
func calls(t *testing.T, rdb *redis.Client, command string) (n int) {
	t.Helper()
	stats, err := rdb.Info(bounded(t), "commandstats").Result()
	must(t, err)
	_, line, _ := strings.Cut(stats, "cmdstat_"+command+":calls=")
	_, _ = fmt.Sscanf(line, "%d,", &n)
	return n
}

func TestPieces(t *testing.T) {
	const piece = 1000
	s := redistest.Start(t)
	c, rdb := clientOf(t, s.Options(), Pieces(piece))
	ctx := bounded(t)
	for _, tt := range []struct{ size, buffer, gets, ranges int }{
		{5, piece, 1, 0}, {piece, piece, 1, 0}, // what fits into a piece is read whole
		{0, 9 * piece, 1, 1}, {5, 9 * piece, 0, 1}, {piece - 1, 9 * piece, 0, 1}, {piece, 9 * piece, 0, 1},
		{piece + 1, piece + 1, 0, 2}, {piece + 1, 9 * piece, 0, 2}, {2 * piece, 9 * piece, 0, 2}, {9*piece - 1, 9 * piece, 0, 9},
		{9 * piece, 9 * piece, 0, 9}, {9*piece + 1, 9 * piece, 0, 1},
	} {
		value, buf := randomValue(tt.size), guarded(tt.buffer)
		must(t, c.SetFromBuffer(ctx, "pieces", value))
		gets, ranges := calls(t, rdb, "get"), calls(t, rdb, "getrange")
		n, err := c.GetToBuffer(ctx, "pieces", buf)
		var small *BufferTooSmallError
		switch {
		case tt.size > tt.buffer:
			if !errors.As(err, &small) || small.Need != int64(tt.size) || small.Have != int64(tt.buffer) {
				t.Errorf("%+v: %v", tt, err)
			}
		case err != nil || !bytes.Equal(intact(buf)[:n], value):
			t.Errorf("%+v: %d bytes, %v", tt, n, err)
		}
		if gets, ranges = calls(t, rdb, "get")-gets, calls(t, rdb, "getrange")-ranges; gets != tt.gets || ranges != tt.ranges {
			t.Errorf("%+v: %d GET, %d GETRANGE", tt, gets, ranges)
		}
	}
	buf := make([]byte, 2*piece)
	if _, err := c.GetToBuffer(ctx, "nothing", buf); err != redis.Nil {
		t.Errorf("no value: %v", err)
	}
	must(t, rdb.LPush(ctx, "list", "x").Err())
	if _, err := c.GetToBuffer(ctx, "list", buf); !redis.HasErrorPrefix(err, "WRONGTYPE") {
		t.Errorf("a list: %v", err)
	}
	idle(t, c, 1)
}

// A value that is replaced while its pieces are read is that of before or of afterwards, never of both.
func TestPiecesOfAValueThatChanges(t *testing.T) {
	c, rdb := shared(t, Pieces(4<<10))
	ctx := bounded(t)
	must(t, c.SetFromBuffer(ctx, "changes", describe(0, 0, 100_000)))
	whole := calls(t, rdb, "get")
	var stop atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for i := 1; !stop.Load(); i++ {
			if err := c.SetFromBuffer(ctx, "changes", describe(1, i, 100_000+i%2)); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Duration(i%20) * 50 * time.Microsecond)
		}
	})
	buf := make([]byte, 200_000)
	for range 500 {
		n, err := c.GetToBuffer(ctx, "changes", buf)
		if err != nil || !described(buf[:n]) {
			t.Errorf("%d bytes, %v", n, err)
			break
		}
	}
	stop.Store(true)
	all.Wait()
	if n := calls(t, rdb, "get") - whole; n == 0 || n >= 500 {
		t.Errorf("%d of 500 reads had to be begun again: this tests nothing", n)
	}
}

// What a call has left watched does not disturb the next ones on its connection.
func TestPiecesLeaveNothingBehind(t *testing.T) {
	const piece = 100
	c, rdb := shared(t, Pieces(piece))
	ctx := bounded(t)
	conn, err := c.Conn(ctx)
	must(t, err)
	defer conn.Close()
	long := randomValue(5 * piece)
	must(t, c.SetFromBuffer(ctx, "long", long))
	for range 3 {
		must(t, c.SetFromBuffer(ctx, "short", []byte("short")))
		buf := make([]byte, 5*piece)
		if n, err := conn.GetToBuffer(ctx, "short", buf); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		must(t, c.SetFromBuffer(ctx, "short", []byte("other"))) // which is watched
		r, err := conn.ReaderAt(ctx, "long")
		must(t, err)
		if n, err := r.ReadAt(buf, 0); n != len(buf) || err != nil || !bytes.Equal(buf, long) {
			t.Fatal(n, err)
		}
		must(t, r.Close())
		if _, err := conn.GetToBuffer(ctx, "short", buf); err != nil {
			t.Fatal(err)
		}
		must(t, c.SetFromBuffer(ctx, "short", []byte("other")))
		whole := calls(t, rdb, "get")
		if n, err := conn.GetToBuffer(ctx, "long", buf); n != len(long) || err != nil || !bytes.Equal(buf, long) {
			t.Fatal(n, err)
		}
		if calls(t, rdb, "get") != whole {
			t.Fatal("the value was read whole")
		}
	}
}

// None of the replies is believed. Each case is a connection of its own.
func TestHostilePieces(t *testing.T) {
	const ok, five, he, ll, o, new = "+OK\r\n", ":5\r\n", "$2\r\nhe\r\n", "$2\r\nll\r\n", "$1\r\no\r\n", "$3\r\nnew\r\n"
	refused := errors.New("a ProtocolError")
	for name, tt := range map[string]struct {
		replies []string
		want    string
		err     error
	}{
		"as it should be":      {[]string{ok, five, he, ll, o, ok, "*0\r\n"}, "hello", nil},
		"changed":              {[]string{ok, five, he, ll, o, ok, "*-1\r\n", new}, "new", nil},
		"changed, RESP3":       {[]string{ok, five, he, ll, o, ok, "_\r\n", new}, "new", nil},
		"longer than it says":  {[]string{ok, ":1\r\n", he, new}, "new", nil},
		"became shorter":       {[]string{ok, five, he, "$1\r\nl\r\n", new}, "new", nil},
		"became longer":        {[]string{ok, five, he, "$3\r\nlll\r\n", new}, "new", nil},
		"gone":                 {[]string{ok, ":0\r\n", "$0\r\n\r\n", "$-1\r\n"}, "", redis.Nil},
		"no WATCH":             {[]string{"-ERR unknown command\r\n", five, he, new}, "new", nil},
		"no STRLEN":            {[]string{ok, "-NOPERM\r\n", he, new}, "new", nil},
		"no GETRANGE":          {[]string{ok, five, "-NOPERM\r\n", new}, "new", nil},
		"no MULTI":             {[]string{ok, five, he, ll, o, "-NOPERM\r\n", "-ERR EXEC without MULTI\r\n", new}, "new", nil},
		"being moved":          {[]string{ok, five, he, "-ASK 1 127.0.0.1:1\r\n", new}, "new", nil},
		"WATCH gives a value":  {[]string{he, five, he}, "", refused},
		"a value for a length": {[]string{ok, he, he}, "", refused},
		"a length for a piece": {[]string{ok, five, five}, "", refused},
		"a length for MULTI":   {[]string{ok, five, he, ll, o, five, "*0\r\n"}, "", refused},
		"EXEC did something":   {[]string{ok, five, he, ll, o, ok, "*1\r\n:1\r\n"}, "", refused},
		"EXEC without MULTI":   {[]string{ok, five, he, ll, o, "-NOPERM\r\n", "*0\r\n"}, "", refused},
		"a length out of all":  {[]string{ok, ":999999999999999999\r\n", he}, "", refused},
		"more than the buffer": {[]string{ok, ":7\r\n", he}, "", &BufferTooSmallError{}},
		"EXEC is refused":      {[]string{ok, five, he, ll, o, ok, "-NOPERM\r\n"}, "", io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			h := redistest.StartHostile(t)
			opt := h.Options()
			opt.MaxRetries, opt.ReadTimeout = -1, 200*time.Millisecond
			c, _ := clientOf(t, opt)
			var script []redistest.Answer
			for _, r := range tt.replies {
				script = append(script, redistest.Say(r))
			}
			h.Script(append(script, redistest.Say("").ThenClose())...)
			buf := make([]byte, 6)
			n, err := c.getToBuffer(bounded(t), "k", buf, 2)
			var protocol *ProtocolError
			var small *BufferTooSmallError
			switch {
			case tt.err == refused && !errors.As(err, &protocol), errors.As(tt.err, &small) && !errors.As(err, &small),
				tt.err == io.EOF && (err == nil || isServerError(err)), tt.err == nil && (err != nil || string(buf[:n]) != tt.want), tt.err == redis.Nil && err != redis.Nil:
				t.Errorf("%q, %v, want %q, %v", buf[:n], err, tt.want, tt.err)
			}
		})
	}
}

// A server that refuses to end what is watched tells a ReaderAt on the same connection why.
func TestHostileUnwatch(t *testing.T) {
	h := redistest.StartHostile(t)
	o := h.Options()
	o.MaxRetries, o.ReadTimeout = -1, 200*time.Millisecond
	c, _ := clientOf(t, o, Conns(1))
	ctx := bounded(t)
	var script []redistest.Answer
	for _, reply := range []string{
		"+OK\r\n", ":1\r\n", "$1\r\nx\r\n", // a value that is shorter than a piece, which stays watched
		":5\r\n",                      // how long the other one is
		"+OK\r\n", "-NOPERM exec\r\n", // the transaction of nothing
		"-ERR nested\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "-NOPERM exec\r\n",
	} {
		script = append(script, redistest.Say(reply))
	}
	h.Script(append(script, redistest.Say("").ThenClose())...)
	buf := make([]byte, 5)
	if n, err := c.getToBuffer(ctx, "short", buf, 2); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	r, err := c.ReaderAt(ctx, "long")
	must(t, err)
	defer r.Close()
	if n, err := r.ReadAt(buf, 0); n != 0 || !isServerError(err) || err == redis.Nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
