package redisbuf

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/redis/go-redis/v9"
)

func TestConnIsOneConnection(t *testing.T) {
	s := redistest.Shared(t)
	p := s.Proxy(t)
	c, rdb := clientOf(t, optionsOf(p.Endpoint()))
	ctx := bounded(t)
	conn, err := c.Conn(ctx)
	must(t, err)
	everyWay(t, &conn.Client, rdb, "sticky", fewSizes)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := conn.GetToBuffer(cancelled, "sticky", nil); err != context.Canceled {
		t.Error(err)
	}
	_, err = conn.GetToBuffer(ctx, "none", nil) // the connection still works
	if err != redis.Nil {
		t.Error(err)
	}
	p.Cut()
	if _, err := conn.GetToBuffer(ctx, "none", nil); err == nil || isServerError(err) {
		t.Error("on a lost connection:", err)
	}
	if _, err := conn.GetToBuffer(ctx, "none", nil); err != ErrConnLost {
		t.Error("after that:", err)
	}
	must(t, conn.Close())
	if _, err := c.Conn(cancelled); err != context.Canceled {
		t.Error(err)
	}
}

// A Conn that is used within one of its own calls would send a request in the middle of a value.
func TestConnWithinItsOwnCall(t *testing.T) {
	c, rdb := shared(t, MaxConns(1))
	ctx := bounded(t)
	value := randomValue(300_000)
	must(t, rdb.MSet(ctx, "within/from", value, "within/to", "before").Err())
	conn, err := c.Conn(ctx)
	must(t, err)
	within := func() {
		t.Helper()
		if _, err := conn.GetToBuffer(ctx, "within/from", make([]byte, 10)); err != ErrConnBusy {
			t.Error(err)
		}
		p := conn.Pipeline()
		p.GetToBuffer("within/from", make([]byte, 10))
		if err := p.Exec(ctx); err != ErrConnBusy {
			t.Error("a pipeline:", err)
		}
		if err := conn.Close(); err != ErrConnBusy {
			t.Error("Close:", err)
		}
	}
	var got bytes.Buffer
	_, err = conn.GetTo(ctx, "within/from", writerFunc(func(p []byte) (int, error) {
		within()
		return got.Write(p)
	}))
	if err != nil || !bytes.Equal(got.Bytes(), value) {
		t.Errorf("%d bytes, %v, want the value", got.Len(), err)
	}
	must(t, conn.SetFrom(ctx, "within/to", readerFunc(func(p []byte) (int, error) {
		within()
		return copy(p, "after"), nil
	}), 5))
	check(t, rdb, "within/to", []byte("after"))

	r, err := conn.ReaderAt(ctx, "within/from") // as a copy between keys might do
	must(t, err)
	if err := conn.SetFrom(ctx, "within/to", r, r.Size()); !errors.Is(err, ErrConnBusy) {
		t.Error(err)
	}
	check(t, rdb, "within/to", []byte("after"))
	must(t, conn.Close())
	if _, err := c.GetToBuffer(ctx, "within/from", make([]byte, len(value))); err != nil {
		t.Error(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
