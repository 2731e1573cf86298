package redisbuf

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// hostileReplies are invalid replies to a GET.
var hostileReplies = []string{
	"$4611686018427387904\r\n", "$9223372036854775807\r\n", "$9223372036854775808\r\n",
	"$99999999999999999999999999\r\n",
	"$999999999999999999\r\n", "$536870913\r\n", "$-2\r\n", "$-9223372036854775808\r\n", "$x\r\n",
	"$\r\n", "$1x\r\n", "$ 1\r\n",
	"$+1\r\n", "$1\nx\r\n", "$3\r\nabcdef\r\n", "$3\r\nabc\n\r", "$3\r\nabc  ", "*1\r\n$1\r\nx\r\n",
	"*999999999\r\n", ":1\r\n",
	"+OK\r\n", "%1\r\n", "\r\n", "\n\n", "\x00\x01\x02\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
	">999999999999999999\r\n", ">1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
	"!999999999\r\n", "!-5\r\n",
	strings.Repeat("$", 70000), "-" + strings.Repeat("x", 70000), ">1\r\n$4611686018427387904\r\n",
	">65537\r\n",
	"|4611686018427387903\r\n", "=3\r\ntxt\r\n", "#t\r\n", ",1.5\r\n", "(12\r\n", "~1\r\n+x\r\n",
}

// No method accepts such a reply or allocates its announced length. The next call succeeds.
func TestHostileReplies(t *testing.T) {
	c, h := hostile(t)
	ctx := bounded(t)
	var before, after runtime.MemStats
	try := func(name, reply, good string, call func() (string, error)) {
		h.Script(redistest.Say(reply).ThenClose(), redistest.Say(good))
		runtime.ReadMemStats(&before)
		_, err := call()
		runtime.ReadMemStats(&after)
		if !isA[*ProtocolError](err) {
			t.Errorf("%s, %.40q: %v, want a ProtocolError", name, reply, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
			t.Errorf("%s, %.40q: %d bytes allocated", name, reply, got)
		}
		if got, err := call(); err != nil || got != "ok" {
			t.Errorf("%s after %.40q: %q, %v, want ok on a new connection", name, reply, got, err)
		}
	}
	for _, reply := range hostileReplies {
		for _, g := range gets {
			if g.asksTwice() {
				continue // requests a number first
			}
			try(g.name, reply, "$2\r\nok\r\n", func() (string, error) {
				got, err := g.call(ctx, c, "k", 100)
				return string(got), err
			})
		}
	}
	for _, reply := range append([]string{"$2\r\nOK\r\n"}, hostileReplies...) {
		if reply == "+OK\r\n" {
			continue
		}
		for _, s := range sets {
			try(s.name, reply, "+OK\r\n", func() (string, error) {
				return "ok", s.call(ctx, c, "k", []byte("value"))
			})
		}
	}
}

// If a server announces much and sends little, the client holds little.
func TestHostileAnnouncement(t *testing.T) {
	c, h := hostile(t)
	ctx := bounded(t)
	before := millrace.DefaultPool().Stats()
	for range 5 {
		h.Script(redistest.Say("$536870912\r\nabc").ThenClose())
		var chain millrace.Chain
		if err := c.GetChain(ctx, "k", &chain, 1<<30); !errors.Is(err, io.ErrUnexpectedEOF) ||
			chain.Len() > 0 {
			t.Fatal(err)
		}
	}
	if after := millrace.DefaultPool().Stats(); after.HighWater > max(before.HighWater,
		before.InUse+4<<20) {
		t.Errorf("%d bytes were in use at once", after.HighWater)
	}
	h.Script(redistest.Say("$536870912\r\nabc"))
	if _, err := c.GetToBuffer(ctx, "k", make([]byte, 10)); !isA[*BufferTooSmallError](err) {
		t.Fatal(err)
	}
}

// If a server sends more of a value than was requested, or a negative length, the call returns an
// error.
func TestHostileRange(t *testing.T) {
	c, _ := hostile(t, redistest.Say("$3\r\nabc\r\n"), redistest.Say("$3\r\nabc\r\n"),
		redistest.Say(":-5\r\n"))
	ctx := bounded(t)
	var b bytes.Buffer
	if n, err := c.GetRangeTo(ctx, "k", 0, 2, &b); n != 0 || b.Len() > 0 ||
		!isA[*ProtocolError](err) {
		t.Errorf("%q, %v, want a ProtocolError and no bytes", b.Bytes(), err)
	}
	if n, err := c.GetRangeTo(ctx, "k", 0, 3, &b); n != 3 || err != nil {
		t.Error(n, err)
	}
	if _, err := c.ReaderAt(ctx, "k"); !isA[*ProtocolError](err) {
		t.Error(err)
	}
}

// Errors of a server that is loading, or that has lost its cluster, are temporary, and the call is
// retried.
func TestErrorsThatPass(t *testing.T) {
	h := redistest.StartHostile(t)
	o := optionsOf(h.Endpoint())
	o.MinRetryBackoff = 1
	c, _ := clientOf(t, o)
	ctx := bounded(t)
	for _, text := range []string{"LOADING Redis is loading the dataset in memory",
		"CLUSTERDOWN Hash slot not served",
		"TRYAGAIN Multiple keys request during rehashing of slot",
		"MASTERDOWN Link with MASTER is down",
		"READONLY You can't write against a read only replica.",
		"ERR max number of clients reached"} {
		h.Script(redistest.Say("-"+text+"\r\n"), redistest.Say("-"+text+"\r\n"),
			redistest.Say("+OK\r\n"))
		if err := c.SetFromBuffer(ctx, "k", []byte("v")); err != nil {
			t.Errorf("%s: %v, want the call repeated", text, err)
		}
		h.Always(redistest.Say("-" + text + "\r\n"))
		err := c.SetFromBuffer(ctx, "k", []byte("v"))
		if err == nil || err.Error() != text ||
			!redis.HasErrorPrefix(err, strings.Fields(text)[0]) &&
				!redis.IsMaxClientsError(err) {
			t.Errorf("%s: %v, want the server's error", text, err)
		}
	}
	for _, text := range []string{"OOM command not allowed when used memory > 'maxmemory'.",
		"NOAUTH Authentication required.",
		"MISCONF Redis is configured to save", "NOREPLICAS Not enough good replicas to write."} {
		before := len(h.Requests())
		h.Always(redistest.Say("-" + text + "\r\n"))
		if err := c.SetFromBuffer(ctx, "k", []byte("v")); err == nil || err.Error() != text {
			t.Errorf("%s: %v, want the server's error", text, err)
		}
		if n := len(h.Requests()) - before; n != 1 {
			t.Errorf("%s: tried %d times", text, n)
		}
	}
}

// The reply to HELLO may be anything as well.
func TestHostileGreeting(t *testing.T) {
	for _, greeting := range hostileReplies {
		c, _ := tapeOf(greeting)
		if err := c.handshake(bounded(t), &redis.Options{Protocol: 3, Password: "p",
			DB: 1}); err == nil {
			t.Errorf("%.40q: no error", greeting)
		}
	}
}
