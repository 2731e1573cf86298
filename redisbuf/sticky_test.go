package redisbuf

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/redistest"
)

func TestConnIsOneConnection(t *testing.T) {
	s := redistest.Shared(t)
	p := redistest.StartProxy(t, s.Network(), s.Addr())
	c, rdb := clientOf(t, p.Options(s))
	ctx := bounded(t)
	conn, err := c.Conn(ctx)
	must(t, err)
	everyWay(t, conn.commands, rdb, "sticky", fewSizes)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := conn.GetToBuffer(cancelled, "sticky", nil); err != context.Canceled {
		t.Error(err)
	}
	_, err = conn.GetToBuffer(ctx, "none", nil) // the connection is still there
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
