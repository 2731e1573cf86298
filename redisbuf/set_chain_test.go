package redisbuf

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// scattered returns value as a Chain of n pieces, each in a block of its own.
func scattered(t testing.TB, value []byte, n int) *millrace.Chain {
	t.Helper()
	c := new(millrace.Chain)
	t.Cleanup(c.Release)
	for i := range n {
		p := value[i*len(value)/n : (i+1)*len(value)/n]
		d := millrace.DefaultPool().Get(len(p))
		ref := d.Freeze(copy(d.Bytes(), p))
		c.Append(&ref)
	}
	return c
}

// A Chain goes out whole, however many pieces it has: fewer than a queue holds, more, and as many.
func TestSetChainOfManyPieces(t *testing.T) {
	unix := redistest.Start(t, redistest.UnixSocket())
	tcp, rdb := shared(t)
	local, localRdb := clientOf(t, unix.Options())
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

// Several long Chains in one request share its list of pieces with the commands between them.
func TestPipelineOfManyPieces(t *testing.T) {
	c, rdb := shared(t)
	p := c.Pipeline()
	values := make([][]byte, 20)
	for i := range values {
		values[i] = randomValue(1 + rand.IntN(1<<20))
		p.SetChain(fmt.Sprint("scattered/", i), scattered(t, values[i], 1+rand.IntN(min(200, len(values[i])))))
	}
	must(t, p.Exec(bounded(t)))
	for i, value := range values {
		check(t, rdb, fmt.Sprint("scattered/", i), value)
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
