package redisbuf

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

func TestTLS(t *testing.T) {
	s := redistest.Start(t, redistest.TLS(), redistest.Password("secret"))
	o := optionsOf(s.Endpoint())
	o.MaxRetries = -1
	c, rdb := clientOf(t, o)
	everyWay(t, c, rdb, "tls", fewSizes)

	o = optionsOf(s.Endpoint())
	o.TLSConfig.RootCAs, o.MaxRetries = nil, -1
	c, _ = clientOf(t, o)
	if _, err := c.GetToBuffer(bounded(t), "tls", nil); err == nil || isServerError(err) {
		t.Error("to a server without a trusted certificate:", err)
	}
}

// A TLS connection is lost after a deadline has ended a Write. Therefore a Write is not ended
// before its deadline.
func TestTLSWriteThatHasToWait(t *testing.T) {
	s := redistest.Start(t, redistest.TLS())
	o := optionsOf(s.Endpoint())
	o.MaxRetries = -1
	c, rdb := clientOf(t, o)
	must(t, c.SetFromBuffer(bounded(t), "wait", []byte("v")))
	value := randomValue(12 << 20)
	for _, set := range sets[:4] {
		s.Pause(t)
		time.AfterFunc(100*time.Millisecond, func() { s.Resume(t) })
		must(t, set.call(bounded(t), c, "wait", value))
		check(t, rdb, "wait", value)
	}
	s.Pause(t)
	defer s.Resume(t)
	ctx, cancel := context.WithTimeout(bounded(t), 30*time.Millisecond)
	defer cancel()
	if err := c.SetFromBuffer(ctx, "wait", value); err != context.DeadlineExceeded {
		t.Error(err)
	}
}

// An idle TLS connection that the server has closed is not used again.
func TestTLSIdleConnectionThatWasClosed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("idle connections are looked at on Linux only")
	}
	s := redistest.Start(t, redistest.TLS())
	o := optionsOf(s.Endpoint())
	o.MaxRetries = -1
	c, rdb := clientOf(t, o)
	ctx := bounded(t)
	value := randomValue(1000)
	must(t, c.SetFromBuffer(ctx, "idle", value))
	must(t, rdb.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	awaitUnusable(t, c)
	letIdle(c)
	must(t, c.SetFromBuffer(ctx, "idle", value))
	got, err := gets[0].call(ctx, c, "idle", len(value))
	if err != nil || !bytes.Equal(got, value) {
		t.Error(err)
	}
}
