// Package idle measures the heap memory of idle connections over TCP and TLS. On each connection, a
// goroutine waits for one byte, which never arrives.
//
// A child process holds the other ends of the connections, so that their file descriptors and
// memory do not count.
package idle

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure"
)

// Program runs the benchmark. It produces one table for TCP and one for TLS.
var Program = &measure.Program{
	Name: "idle", What: "the memory of connections that wait for a byte", Rounds: 3,
	Flags: func(f *flag.FlagSet) { f.IntVar(&conns, "conns", 10_000, "connections") },
	Run:   run,
}

var conns int

// mostTLS is the maximum number of TLS connections. It limits the time for handshakes.
const mostTLS = 2000

func run(ctx context.Context, p *measure.Params) error {
	if err := table(ctx, p, "idle", "TCP", conns, nil); err != nil {
		return err
	}
	s := httptest.NewTLSServer(nil) // for its certificate
	config := s.TLS.Clone()
	s.Close()
	return table(ctx, p, "idle-tls", "TLS", min(conns, mostTLS), config)
}

func table(ctx context.Context, p *measure.Params, name, protocol string, conns int,
	config *tls.Config) error {
	n := raiseFileLimit(conns)
	if _, err := hold(waiters[0], n, config); err != nil { // allocates the poller
		return err
	}
	heap := make([]measure.Series, len(waiters))
	stack := make([]measure.Series, len(waiters))
	err := measure.Rounds(ctx, len(waiters), p.Rounds, func(_, i int) error {
		u, err := hold(waiters[i], n, config)
		heap[i] = append(heap[i], float64(u.heap)/float64(n))
		stack[i] = append(stack[i], float64(u.stack)/float64(n))
		return err
	})
	if err != nil {
		return err
	}
	t := measure.NewTable(name, fmt.Sprintf("%d %s connections that wait for a byte", n, protocol),
		"waiting in",
		"heap bytes a connection", "of these the reader's", "stack bytes a connection")
	t.Bar = 2
	if n < conns {
		t.Note = fmt.Sprintf("The limit of descriptors allows no more than %d connections.", n)
	}
	for i, w := range waiters {
		t.Row(w.name, heap[i], heap[i].Minus(heap[0]), stack[i].Median())
	}
	return p.Add(t)
}

type waiter struct {
	name string
	wait func(net.Conn) error
}

// waiters begins with the baseline, which needs only the connection and its goroutine.
var waiters = []waiter{
	{"conn.Read of one byte", func(c net.Conn) error {
		_, err := c.Read(make([]byte, 1))
		return err
	}},
	{"millrace.Reader, ReadByte", func(c net.Conn) error {
		r := millrace.NewReader(c)
		defer r.Release()
		_, err := r.ReadByte()
		return err
	}},
	{"millrace.Reader, and a millrace.Writer after Flush", func(c net.Conn) error {
		r, w := millrace.NewReader(c), millrace.NewWriter(c)
		defer r.Release()
		defer w.Release()
		return greet(w, r)
	}},
	{"bufio.Reader, ReadByte", func(c net.Conn) error {
		_, err := bufio.NewReader(c).ReadByte()
		return err
	}},
	{"bufio.Reader, and a bufio.Writer after Flush", func(c net.Conn) error {
		return greet(bufio.NewWriter(c), bufio.NewReader(c))
	}},
}

// greet sends a byte and waits for a byte. It flushes w again after the wait, so that the garbage
// collector does not free w during the wait.
func greet(w interface {
	io.ByteWriter
	Flush() error
}, r io.ByteReader) error {
	if err := errors.Join(w.WriteByte('a'), w.Flush()); err != nil {
		return err
	}
	_, err := r.ReadByte()
	return errors.Join(err, w.Flush())
}

// A usage is an amount of memory in bytes.
type usage struct {
	heap  int64 // in live objects
	stack int64 // in goroutine stacks
}

// hold opens n connections, and measures the memory that they use while a goroutine calls w.wait
// for each of them. If config is nil, the connections do not use TLS.
func hold(w waiter, n int, config *tls.Config) (usage, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return usage{}, err
	}
	defer l.Close()
	protocol := "tcp"
	if config != nil {
		l, protocol = tls.NewListener(l, config), "tls"
	}
	cmd, err := measure.Self(holder, protocol, l.Addr().String(), strconv.Itoa(n))
	if err != nil {
		return usage{}, err
	}
	far, err := measure.StartChild(cmd)
	if err != nil {
		return usage{}, err
	}
	defer far.Close()
	before := memory()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer far.Close() // Close ends every wait
	for range n {
		c, err := l.Accept()
		if err != nil {
			return usage{}, fmt.Errorf("idle: connection of %d: %w", n, err)
		}
		wg.Go(func() {
			defer c.Close()
			w.wait(c)
		})
	}
	settle(n)
	after := memory()
	return usage{after.heap - before.heap, after.stack - before.stack}, nil
}

// settle waits until n goroutines are blocked.
func settle(n int) {
	waiting := []metrics.Sample{{Name: "/sched/goroutines/waiting:goroutines"}}
	for {
		metrics.Read(waiting)
		if waiting[0].Value.Uint64() >= uint64(n) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// memory returns the memory in use after garbage collection. A sync.Pool is empty only after two
// collections.
func memory() usage {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return usage{int64(m.HeapAlloc), int64(m.StackInuse)}
}

// raiseFileLimit raises the limit on file descriptors to the allowed maximum. It returns n, or the
// number of connections that the limit allows, whichever is smaller.
func raiseFileLimit(n int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return n
	}
	limit.Cur = limit.Max
	syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	const spare = 100 // file descriptors for everything else
	return min(n, int(limit.Cur)-spare)
}

// holder is a child process that opens connections and holds them until its input ends. Its
// arguments are the protocol (tcp or tls), the address and the number of connections.
var holder = measure.RegisterChild("idle-holder", func(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	raiseFileLimit(n)
	conns := make([]net.Conn, n)
	for i := range conns {
		if args[0] == "tls" {
			conns[i], err = tls.Dial("tcp", args[1], &tls.Config{InsecureSkipVerify: true})
		} else {
			conns[i], err = net.Dial("tcp", args[1])
		}
		if err != nil {
			return err
		}
	}
	io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(conns)
	return nil
})
