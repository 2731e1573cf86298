package redisbuf

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

func TestSentinel(t *testing.T) {
	s := redistest.StartSentinel(t)
	rdb := sentinelRdb(t, s)
	c := newClient(t, rdb)
	ctx := bounded(t)
	value := randomValue(200000)
	must(t, c.SetFromBuffer(ctx, "sentinel", value))
	check(t, rdb, "sentinel", value)

	stop := load(t, c, "load", 200000)
	s.Failover(t) // both servers keep running
	value = randomValue(200000)
	eventually(t, func() bool { return c.SetFromBuffer(ctx, "sentinel", value) == nil })
	stop()
	got, err := gets[0].call(ctx, c, "sentinel", len(value))
	if err != nil || !bytes.Equal(got, value) {
		t.Fatal(err)
	}
	check(t, rdbOf(t, s.Master().Endpoint()), "sentinel", value)
}

// An old master that cannot be notified continues to accept writes. The client leaves it, although
// no connection is lost.
func TestSentinelThatCannotTellTheOldMaster(t *testing.T) {
	s := redistest.StartSentinel(t)
	c := newClient(t, sentinelRdb(t, s))
	ctx := bounded(t)
	conn, err := c.Conn(ctx)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetFromBuffer(ctx, "stale", []byte("before")))
	s.Master().Do(t, "ACL", "SETUSER", "default", "-replicaof", "-slaveof", "-client|kill",
		"-config", "-multi")
	stop := load(t, c, "load", 10000)
	s.Promote(t)
	rdb := rdbOf(t, s.Master().Endpoint())
	for err = nil; err != ErrConnLost; err = conn.SetFromBuffer(ctx, "stale", nil) {
		must(t, err)
		time.Sleep(10 * time.Millisecond)
	}
	for i := range 20 {
		value := fmt.Append(nil, "after ", i)
		must(t, c.SetFromBuffer(ctx, "stale", value))
		check(t, rdb, "stale", value)
	}
	stop()
}
