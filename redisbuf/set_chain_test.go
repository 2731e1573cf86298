package redisbuf

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// scattered returns value as a Chain of n pieces. The Chain is released when the test ends.
func scattered(t testing.TB, value []byte, n int) *millrace.Chain {
	t.Helper()
	c := chainOf(value, n)
	t.Cleanup(c.Release)
	return c
}

// A Chain is sent completely, whether it has fewer pieces than a queue holds, more, or equally
// many.
func TestSetChainOfManyPieces(t *testing.T) {
	unix := redistest.Start(t, redistest.UnixSocket())
	tcp, rdb := shared(t)
	local, localRdb := clientOf(t, optionsOf(unix.Endpoint()))
	for _, n := range []int{
		1, 2, 10, 100,
		maxQueue - 2, maxQueue - 1, maxQueue, maxQueue + 1, 3*maxQueue + 5,
	} {
		for _, size := range []int{n, 100 * n, 20_000*n + rand.IntN(n)} {
			value := randomValue(size)
			src := scattered(t, value, n)
			key := fmt.Sprint("scattered/", n)
			must(t, tcp.SetChain(bounded(t), key, src))
			check(t, rdb, key, value)
			must(t, local.SetChain(bounded(t), key, src))
			check(t, localRdb, key, value)
		}
	}
}

// An idle connection holds none of the caller's memory.
func TestIdleConnectionHoldsNoPieces(t *testing.T) {
	c, _ := shared(t)
	conn, err := c.Conn(bounded(t))
	must(t, err)
	defer conn.Close()
	must(t, conn.SetChain(bounded(t), "scattered", scattered(t, randomValue(1<<20), 300)))
	own := conn.own.conn
	for i, p := range own.queue[:cap(own.queue)] {
		if p != nil {
			t.Errorf("piece %d is still there", i)
		}
	}
	if len(own.queue) > 0 || own.sending != nil {
		t.Errorf("%d pieces are queued, %d unsent", len(own.queue), len(own.sending))
	}
}
