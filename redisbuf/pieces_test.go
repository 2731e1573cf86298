package redisbuf

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
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
	c, rdb := clientOf(t, s.Options())
	ctx := bounded(t)
	tests := []struct{ size, most, gets, ranges int }{
		{5, piece, 1, 0}, {piece, piece, 1, 0}, // what has no room for two pieces is read whole
		{0, 9 * piece, 1, 1}, {5, 9 * piece, 0, 1}, {piece - 1, 9 * piece, 0, 1}, {piece, 9 * piece, 0, 1},
		{piece + 1, piece + 1, 1, 0}, {2*piece - 1, 2*piece - 1, 1, 0}, {piece + 1, 2 * piece, 0, 2}, {2 * piece, 2 * piece, 0, 2},
		{piece + 1, 9 * piece, 0, 2}, {2 * piece, 9 * piece, 0, 2}, {9*piece - 1, 9 * piece, 0, 9},
		{9 * piece, 9 * piece, 0, 9}, {9*piece + 1, 9 * piece, 0, 1},
	}
	must(t, rdb.LPush(ctx, "list", "x").Err())
	for _, way := range piecewise {
		for _, tt := range tests {
			value := randomValue(tt.size)
			must(t, c.SetFromBuffer(ctx, "pieces", value))
			gets, ranges := calls(t, rdb, "get"), calls(t, rdb, "getrange")
			got, err := way.call(ctx, c.commands, "pieces", tt.most, piece)
			switch {
			case tt.size > tt.most:
				if !tooLong(err, tt.size, tt.most) {
					t.Errorf("%s, %+v: %v", way.name, tt, err)
				}
			case err != nil || !bytes.Equal(got, value):
				t.Errorf("%s, %+v: %d bytes, %v", way.name, tt, len(got), err)
			}
			if gets, ranges = calls(t, rdb, "get")-gets, calls(t, rdb, "getrange")-ranges; gets != tt.gets || ranges != tt.ranges {
				t.Errorf("%s, %+v: %d GET, %d GETRANGE", way.name, tt, gets, ranges)
			}
		}
		if _, err := way.call(ctx, c.commands, "nothing", 2*piece, piece); err != redis.Nil {
			t.Errorf("%s of no value: %v", way.name, err)
		}
		if _, err := way.call(ctx, c.commands, "list", 2*piece, piece); !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Errorf("%s of a list: %v", way.name, err)
		}
	}
	idle(t, c, 1)
}

// tooLong reports whether err says that a value of size bytes is longer than most.
func tooLong(err error, size, most int) bool {
	var small *BufferTooSmallError
	var large *ValueTooLargeError
	return errors.As(err, &small) && small.Need == int64(size) && small.Have == int64(most) ||
		errors.As(err, &large) && large.Size == int64(size) && large.Limit == int64(most)
}

// The option has both ways take pieces.
func TestPiecesOption(t *testing.T) {
	s := redistest.Start(t)
	c, rdb := clientOf(t, s.Options(), Pieces(1000))
	ctx := bounded(t)
	value := randomValue(3000)
	must(t, c.SetFromBuffer(ctx, "pieces", value))
	var chain millrace.Chain
	defer chain.Release()
	for range 3 { // the first one is whole, because nobody knows
		chain.Release()
		must(t, c.GetChain(ctx, "pieces", &chain, 5000))
	}
	buf := make([]byte, 5000)
	n, err := c.GetToBuffer(ctx, "pieces", buf)
	must(t, err)
	if !bytes.Equal(chain.Bytes(), value) || !bytes.Equal(buf[:n], value) {
		t.Error("another value")
	}
	if gets, ranges := calls(t, rdb, "get"), calls(t, rdb, "getrange"); gets != 1 || ranges != 3*3 {
		t.Errorf("%d GET, %d GETRANGE", gets, ranges)
	}
	must(t, c.SetFromBuffer(ctx, "short", value[:1000]))
	for range 3 { // and so are short ones, but for the first
		chain.Release()
		must(t, c.GetChain(ctx, "short", &chain, 5000))
	}
	if gets, ranges := calls(t, rdb, "get"), calls(t, rdb, "getrange"); gets != 3 || ranges != 3*3+1 {
		t.Errorf("after short values: %d GET, %d GETRANGE", gets, ranges)
	}
}

// A value that is replaced while its pieces are read is that of before or of afterwards, never of both.
func TestPiecesOfAValueThatChanges(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, c.SetFromBuffer(ctx, "changes", describe("changes", 0, 0, 100_000)))
	whole := calls(t, rdb, "get")
	var stop atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		for i := 1; !stop.Load(); i++ {
			if err := c.SetFromBuffer(ctx, "changes", describe("changes", 1, i, 100_000+i%2)); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Duration(i%20) * 50 * time.Microsecond)
		}
	})
	for i := range 500 {
		way := piecewise[i%len(piecewise)]
		got, err := way.call(ctx, c.commands, "changes", 200_000, 4<<10)
		if err != nil || !described("changes", got) {
			t.Errorf("%s: %d bytes, %v", way.name, len(got), err)
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
	none := func(err error) bool { return err == nil }
	missing := func(err error) bool { return err == redis.Nil }
	refused := func(err error) bool { var protocol *ProtocolError; return errors.As(err, &protocol) }
	long := func(err error) bool { return tooLong(err, 7, 6) }
	lost := func(err error) bool { return err != nil && !isServerError(err) }
	for name, tt := range map[string]struct {
		replies []string
		want    string
		fails   func(error) bool
	}{
		"as it should be":      {[]string{ok, five, he, ll, o, ok, "*0\r\n"}, "hello", none},
		"changed":              {[]string{ok, five, he, ll, o, ok, "*-1\r\n", new}, "new", none},
		"changed, RESP3":       {[]string{ok, five, he, ll, o, ok, "_\r\n", new}, "new", none},
		"longer than it says":  {[]string{ok, ":1\r\n", he, new}, "new", none},
		"became shorter":       {[]string{ok, five, he, "$1\r\nl\r\n", new}, "new", none},
		"became longer":        {[]string{ok, five, he, "$3\r\nlll\r\n", new}, "new", none},
		"gone":                 {[]string{ok, ":0\r\n", "$0\r\n\r\n", "$-1\r\n"}, "", missing},
		"no WATCH":             {[]string{"-ERR unknown command\r\n", five, he, new}, "new", none},
		"no STRLEN":            {[]string{ok, "-NOPERM\r\n", he, new}, "new", none},
		"no GETRANGE":          {[]string{ok, five, "-NOPERM\r\n", new}, "new", none},
		"no MULTI":             {[]string{ok, five, he, ll, o, "-NOPERM\r\n", "-ERR EXEC without MULTI\r\n", new}, "new", none},
		"being moved":          {[]string{ok, five, he, "-ASK 1 127.0.0.1:1\r\n", new}, "new", none},
		"WATCH gives a value":  {[]string{he, five, he}, "", refused},
		"a value for a length": {[]string{ok, he, he}, "", refused},
		"a length for a piece": {[]string{ok, five, five}, "", refused},
		"a length for MULTI":   {[]string{ok, five, he, ll, o, five, "*0\r\n"}, "", refused},
		"EXEC did something":   {[]string{ok, five, he, ll, o, ok, "*1\r\n:1\r\n"}, "", refused},
		"EXEC without MULTI":   {[]string{ok, five, he, ll, o, "-NOPERM\r\n", "*0\r\n"}, "", refused},
		"a length out of all":  {[]string{ok, ":999999999999999999\r\n", he}, "", refused},
		"more than the buffer": {[]string{ok, ":7\r\n", he}, "", long},
		"EXEC is refused":      {[]string{ok, five, he, ll, o, ok, "-NOPERM\r\n"}, "", lost},
	} {
		for _, way := range piecewise {
			t.Run(name+", "+way.name, func(t *testing.T) {
				h := redistest.StartHostile(t)
				opt := h.Options()
				opt.MaxRetries, opt.ReadTimeout = -1, 200*time.Millisecond
				c, _ := clientOf(t, opt)
				var script []redistest.Answer
				for _, r := range tt.replies {
					script = append(script, redistest.Say(r))
				}
				h.Script(append(script, redistest.Say("").ThenClose())...)
				got, err := way.call(bounded(t), c.commands, "k", 6, 2)
				if !tt.fails(err) || err == nil && string(got) != tt.want {
					t.Errorf("%q, %v, want %q", got, err, tt.want)
				}
			})
		}
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
