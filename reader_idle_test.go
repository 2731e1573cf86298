//go:build unix && !race && !invariants

package millrace_test

import (
	"runtime"
	"sync"
	"testing"

	"github.com/millrace-io/millrace"
)

// idleConnections is how many are opened; 10,000 need more descriptors than most systems allow a test, and show the same.
const idleConnections = 1000

// A Reader that waits on an idle connection costs less than 512 bytes, all counted: itself, what it needs to wait, and
// no block. (bufio's buffer alone has 4096.)
func TestIdleReadersNeedNoBuffer(t *testing.T) {
	var readers [idleConnections]*millrace.Reader
	var conns, servers [idleConnections]streamConn
	for i := range conns {
		conns[i], servers[i] = tcpPair(t)
	}
	pool := millrace.NewPool()
	var waiting sync.WaitGroup
	// The goroutines are there before and after, and wait for their connections both times: the Readers alone make the
	// difference.
	var first [idleConnections]byte
	for i := range conns {
		waiting.Go(func() {
			if _, err := conns[i].Read(first[i : i+1]); err != nil {
				t.Error(err)
			}
			if b, err := readers[i].ReadByte(); b != 'x' || err != nil {
				t.Errorf("ReadByte = %q, %v", b, err)
			}
		})
	}
	before := heapInUse()
	for i := range readers {
		readers[i] = pool.NewReader(conns[i], 4096)
		servers[i].Write([]byte("s"))
	}
	until(t, "all wait", func() bool {
		s := pool.Stats()
		return s.InUse == 0 && s.Taken >= idleConnections
	})
	each := (heapInUse() - before) / idleConnections
	t.Logf("%d bytes a Reader", each)
	if each >= 512 {
		t.Errorf("an idle Reader costs %d bytes of heap, want less than 512", each)
	}
	for i := range servers {
		servers[i].Write([]byte("x"))
	}
	waiting.Wait()
	for i := range readers {
		readers[i].Release()
	}
}

// heapInUse returns the bytes that live objects occupy.
func heapInUse() int64 {
	var m runtime.MemStats
	for range 5 { // what has finalizers or lies in a sync.Pool goes later than the rest
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
