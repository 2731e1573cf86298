package redisbuf

import (
	"io"
	"testing"

	"github.com/millrace-io/millrace"
)

type panicking struct{ after int }

func (p *panicking) Write(b []byte) (int, error) {
	if p.after -= len(b); p.after < 0 {
		panic("writer")
	}
	return len(b), nil
}

func (p *panicking) Read(b []byte) (int, error) {
	if p.after == 0 {
		panic("reader")
	}
	n := min(len(b), p.after)
	p.after -= n
	return n, nil
}

type panickingReaderFrom struct{ io.Writer }

func (panickingReaderFrom) ReadFrom(io.Reader) (int64, error) { panic("reader from") }

// panics reports whether f panics.
func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}

// After a panic of a reader or writer that is recovered, as in net/http, no connection, no part of
// MaxInFlight, and no block is lost.
func TestPanicsGiveEverythingBack(t *testing.T) {
	const size = 300000
	c, rdb := shared(t, MaxConns(2), MaxInFlight(size))
	ctx := bounded(t)
	value := randomValue(size)
	must(t, rdb.Set(ctx, "panic", value, 0).Err())
	pipeline := func(collect func(p *Pipeline)) func() {
		return func() {
			p := c.Pipeline()
			collect(p)
			_ = p.Exec(ctx)
		}
	}
	for name, f := range map[string]func(){
		"GetTo":       func() { _, _ = c.GetTo(ctx, "panic", &panicking{}) },
		"GetTo, late": func() { _, _ = c.GetTo(ctx, "panic", &panicking{after: size - 1}) },
		"GetTo, splice": func() {
			_, _ = c.GetTo(ctx, "panic", panickingReaderFrom{&panicking{after: size}})
		},
		"GetTo nil":    func() { _, _ = c.GetTo(ctx, "panic", nil) },
		"GetChain nil": func() { _ = c.GetChain(ctx, "panic", nil, size) },
		"SetFrom":      func() { _ = c.SetFrom(ctx, "panic", &panicking{}, size) },
		"SetFrom, late": func() {
			_ = c.SetFrom(ctx, "panic", &panicking{after: size - 1}, size)
		},
		"SetFrom nil":       func() { _ = c.SetFrom(ctx, "panic", nil, size) },
		"SetChain nil":      func() { _ = c.SetChain(ctx, "panic", nil) },
		"Pipeline GetChain": pipeline(func(p *Pipeline) { p.GetChain("panic", nil, size) }),
	} {
		for range 3 { // more often than there are connections
			if !panics(f) && name != "GetTo, splice" { // splice only exists on Linux
				t.Errorf("%s does not panic", name)
			}
		}
		buf := make([]byte, size)
		if n, err := c.GetToBuffer(ctx, "panic", buf); err != nil || n != size {
			t.Fatal(name, n, err)
		}
		if taken(c) {
			t.Fatal(name, "still has bytes in flight")
		}
		if s := millrace.DefaultPool().Stats(); s.InUse != 0 {
			t.Fatalf("%s: %d bytes in %d blocks", name, s.InUse, s.InUseBlocks)
		}
	}
	check(t, rdb, "panic", value)
}

// A Conn whose connection was spoiled by a panic reports that the connection is lost.
func TestPanicOnAConn(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "panic", randomValue(1000), 0).Err())
	conn, err := c.Conn(ctx)
	must(t, err)
	if !panics(func() { _, _ = conn.GetTo(ctx, "panic", &panicking{}) }) {
		t.Error("no panic")
	}
	if _, err := conn.GetToBuffer(ctx, "panic", nil); err != ErrConnLost {
		t.Error(err)
	}
	must(t, conn.Close())
	_, err = c.GetToBuffer(ctx, "panic", make([]byte, 1000))
	must(t, err)
}
