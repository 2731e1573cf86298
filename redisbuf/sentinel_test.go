package redisbuf

import (
	"bytes"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/redistest"
)

func TestSentinel(t *testing.T) {
	s := redistest.StartSentinel(t)
	rdb := s.Client(t)
	c := newClient(t, rdb)
	ctx := bounded(t)
	value := randomValue(200000)
	must(t, c.SetFromBuffer(ctx, "sentinel", value))
	check(t, rdb, "sentinel", value)

	stop := make(chan struct{})
	wait := load(t, c, "load", 200000, stop)
	old := s.Master(t)
	s.Failover(t) // both live on
	value = randomValue(200000)
	for begun := time.Now(); ; {
		err := c.SetFromBuffer(ctx, "sentinel", value)
		if err == nil {
			break
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal(err)
		}
	}
	close(stop)
	done, failed := wait()
	t.Logf("%d calls, %d failed", done, failed)
	got, err := gets[0].call(ctx, c.commands, "sentinel", len(value))
	if err != nil || !bytes.Equal(got, value) {
		t.Fatal(err)
	}
	if s.Master(t) == old {
		t.Error("nothing has happened")
	}
	check(t, s.Master(t).Client(t), "sentinel", value)
}
