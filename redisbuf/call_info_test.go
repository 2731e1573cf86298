package redisbuf

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

// A callLog records the calls that OnCall reports.
type callLog struct {
	mu      sync.Mutex
	started []CallInfo
	done    []CallResult
}

func (l *callLog) option() Option {
	return OnCall(func(_ context.Context, info CallInfo) func(CallResult) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.started = append(l.started, info)
		return func(r CallResult) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.done = append(l.done, r)
		}
	})
}

// take returns the only recorded call, and removes it. It fails the test unless there is exactly
// one call.
func (l *callLog) take(t *testing.T) (CallInfo, CallResult) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.started) != 1 || len(l.done) != 1 {
		t.Fatalf("%v, and %v, want one call", l.started, l.done)
	}
	info, r := l.started[0], l.done[0]
	l.started, l.done = nil, nil
	return info, r
}

// opOf returns the Op of a way to read or set a value.
func opOf(name string) string {
	switch {
	case name == "MGet", strings.HasPrefix(name, "Pipeline"):
		return "PIPELINE"
	case strings.HasPrefix(name, "GetRange"):
		return "GETRANGE"
	case strings.HasPrefix(name, "Set"):
		return "SET"
	}
	return "GET"
}

// Each call is reported once, with its operation, key, error, length and server.
func TestOnCallReportsEachCallOnce(t *testing.T) {
	s := redistest.Shared(t)
	var l callLog
	c, rdb := shared(t, l.option())
	ctx := bounded(t)
	const size = 70_000
	value := randomValue(size)
	must(t, rdb.Set(ctx, "call", value, 0).Err())
	must(t, rdb.Del(ctx, "call/list").Err())
	must(t, rdb.LPush(ctx, "call/list", "x").Err())
	want := func(name, key string, r CallResult) {
		t.Helper()
		info, got := l.take(t)
		if info.Op != opOf(name) || !slices.Equal(info.Keys, []string{key}) {
			t.Errorf("%s: %v", name, info)
		}
		r.Addr = s.Addr()
		if got != r {
			t.Errorf("%s of %s: %+v, want %+v", name, key, got, r)
		}
	}
	for _, g := range gets {
		if g.name == "ReaderAt" {
			continue
		}
		_, err := g.call(ctx, c, "call", size)
		must(t, err)
		want(g.name, "call", CallResult{Bytes: size})
		_, err = g.call(ctx, c, "call/list", size)
		if !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Errorf("%s: %v", g.name, err)
		}
		want(g.name, "call/list", CallResult{Err: err})
		if g.name == "MGet" || opOf(g.name) == "GETRANGE" {
			continue // no key is no error
		}
		_, err = g.call(ctx, c, "call/none", size)
		if err != redis.Nil {
			t.Errorf("%s: %v", g.name, err)
		}
		want(g.name, "call/none", CallResult{Err: err})
	}
	for _, set := range sets {
		must(t, set.call(ctx, c, "call", value))
		want(set.name, "call", CallResult{Bytes: size})
		err := set.call(ctx, c, "call", value, IfAbsent())
		if err != redis.Nil {
			t.Errorf("%s: %v", set.name, err)
		}
		want(set.name, "call", CallResult{Err: err})
	}

	r, err := c.ReaderAt(ctx, "call")
	must(t, err)
	if info, got := l.take(t); info.Op != "STRLEN" || got.Bytes != 0 {
		t.Errorf("%v, %v", info, got)
	}
	_, err = io.Copy(io.Discard, r)
	must(t, err)
	want("GetRange of a ReaderAt", "call", CallResult{Bytes: size})
	must(t, r.Close())

	p := c.Pipeline()
	p.GetToBuffer("call", make([]byte, size))
	p.GetToBuffer("call/none", nil)
	p.GetRangeToBuffer("refused", -1, nil)
	p.SetFromBuffer("call/set", value[:10])
	err = p.Exec(ctx)
	if info, got := l.take(t); !reflect.DeepEqual(info, CallInfo{"PIPELINE",
		[]string{"call", "call/none", "call/set"}}) || got != (CallResult{Err: err,
		Bytes: size + 10, Addr: s.Addr()}) {
		t.Errorf("%v, %v", info, got)
	}

	// Calls that use no server are not reported.
	_, err = c.GetRangeToBuffer(ctx, "call", -1, nil)
	_, err2 := c.GetRangeTo(ctx, "call", 0, 0, io.Discard)
	if err != errOffset || err2 != nil || c.Pipeline().Exec(ctx) != nil || len(l.started) != 0 {
		t.Errorf("%v, %v, and %v are reported", err, err2, l.started)
	}

	conn, err := c.Conn(ctx)
	must(t, err)
	must(t, conn.SetFromBuffer(ctx, "call", value))
	want("SetFromBuffer", "call", CallResult{Bytes: size})
	must(t, conn.Close())
}

// A reported call has the number of its retries, and the part of a value that was written.
func TestOnCallReportsRetriesAndParts(t *testing.T) {
	p := redistest.Shared(t).Proxy(t)
	var l callLog
	c, rdb := clientOf(t, optionsOf(p.Endpoint()), l.option())
	ctx := bounded(t)
	const size = 200_000
	must(t, rdb.Set(ctx, "call/cut", randomValue(size), 0).Err())
	for _, g := range []string{"GetToBuffer", "Pipeline", "GetTo"} {
		i := slices.IndexFunc(gets, func(way get) bool { return way.name == g })
		p.Set(redistest.CutReply(5).On("\r\ncall/cut\r\n").Once())
		_, err := gets[i].call(ctx, c, "call/cut", size)
		if _, got := l.take(t); err != nil || got != (CallResult{Bytes: size, Retries: 1,
			Addr: p.Addr()}) {
			t.Errorf("%s: %v, %+v", g, err, got)
		}
	}
	p.Set(redistest.CutReply(100_000).On("\r\ncall/cut\r\n").Once())
	n, err := c.GetTo(ctx, "call/cut", new(bytes.Buffer))
	if _, got := l.take(t); err == nil || n == 0 || got.Err != err || got.Bytes != n ||
		got.Retries != 0 {
		t.Errorf("%d, %v, %+v", n, err, got)
	}
	p.Set(redistest.CutReply(0).On("\r\ncall/cut\r\n").Once())
	err = c.SetFromBuffer(ctx, "call/cut", make([]byte, 10))
	if _, got := l.take(t); !isA[*SentError](err) || got.Err != err || got.Bytes != 0 {
		t.Errorf("%v, %+v", err, got)
	}
}

// Both functions can use the Client: the call holds no lock, no connection, and no bytes of the
// MaxInFlight limit.
func TestOnCallMayUseTheClient(t *testing.T) {
	type inner struct{}
	var use func()
	calls := 0
	c, rdb := shared(t, MaxConns(1), MaxInFlight(1<<20),
		OnCall(func(ctx context.Context, _ CallInfo) func(CallResult) {
			if ctx.Value(inner{}) != nil {
				return nil
			}
			calls++
			use()
			return func(CallResult) { use() }
		}))
	ctx := bounded(t)
	within := context.WithValue(ctx, inner{}, true)
	must(t, rdb.Set(ctx, "call/use", randomValue(1<<20), 0).Err())
	use = func() {
		_ = c.Stats()
		if _, err := c.GetToBuffer(within, "call/use", make([]byte, 1<<20)); err != nil {
			t.Error(err)
		}
	}
	for _, g := range gets {
		if _, err := g.call(ctx, c, "call/use", 1<<20); err != nil {
			t.Errorf("%s: %v", g.name, err)
		}
	}
	conn, err := c.Conn(ctx)
	must(t, err)
	defer conn.Close()
	use = func() {
		if _, err := conn.GetToBuffer(within, "call/use", make([]byte, 1<<20)); err != nil {
			t.Error(err)
		}
	}
	must(t, conn.SetFromBuffer(ctx, "call/use", nil))
	if calls < len(gets)+1 {
		t.Errorf("%d calls", calls)
	}
}

// A call that panics is reported with an error.
func TestOnCallOfACallThatPanics(t *testing.T) {
	var l callLog
	c, rdb := shared(t, l.option())
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "call/panic", "value", 0).Err())
	booms(t, func() {
		_, _ = c.GetTo(ctx, "call/panic", io.Discard, OnLength(func(int64) error { panic("boom") }))
	})
	if _, got := l.take(t); got.Err != errPanicked {
		t.Error(got)
	}
}

// A Pipeline to several servers is one call without an address. Behind a Sentinel, the address is
// the master's.
func TestOnCallReportsTheServer(t *testing.T) {
	one, two := redistest.Shared(t), redistest.Start(t)
	var l callLog
	c := newClient(t, ringOf(t, func(*redis.RingOptions) {}, one, two), l.option())
	ctx := bounded(t)
	addrs := make(map[string]bool)
	p := c.Pipeline()
	for _, key := range strings.Split("abcdefghij", "") {
		must(t, c.SetFromBuffer(ctx, key, []byte("v")))
		_, got := l.take(t)
		addrs[got.Addr] = true
		p.GetToBuffer(key, make([]byte, 1))
	}
	if len(addrs) != 2 || !addrs[one.Addr()] || !addrs[two.Addr()] {
		t.Error(addrs)
	}
	must(t, p.Exec(ctx))
	if info, got := l.take(t); len(info.Keys) != 10 || got != (CallResult{Bytes: 10}) {
		t.Error(info, got)
	}

	told(t, func(t *testing.T, c *Client, s *pipeRedis) {
		var l callLog
		l.option()(&c.settings)
		s.tell("one", "master", errors.New("refused"))
		_, err := c.GetToBuffer(t.Context(), "k", make([]byte, 10))
		if _, got := l.take(t); err == nil || got.Err != err || got.Addr != "" {
			t.Error(err, got)
		}
		for _, master := range []string{"one", "two"} {
			s.tell(master, "master", nil)
			for _, n := range c.nodes {
				n.reset()
			}
			nameOf(t, c)
			if _, got := l.take(t); got.Addr != master {
				t.Error(got)
			}
		}
	})
}

// OnCall reports the server of a call that panics.
func TestOnCallReportsTheServerOfAPanic(t *testing.T) {
	var l callLog
	c, rdb := shared(t, l.option())
	o := *rdb.Options()
	o.Dialer = func(context.Context, string, string) (net.Conn, error) { panic("Dialer") }
	undialed, _ := clientOf(t, &o, l.option())
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "panic/call", randomValue(300_000), 0).Err())
	for name, f := range map[string]func(){
		"writer": func() { _, _ = c.GetTo(ctx, "panic/call", &panicking{}) },
		"Dialer": func() { _, _ = undialed.GetToBuffer(ctx, "panic/call", nil) },
		"Dialer of a Pipeline": func() {
			p := undialed.Pipeline()
			p.GetToBuffer("panic/call", nil)
			_ = p.Exec(ctx)
		},
	} {
		if !panics(f) {
			t.Errorf("%s does not panic", name)
		}
		_, r := l.take(t)
		if r.Err != errPanicked || r.Addr != o.Addr || r.Retries != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
