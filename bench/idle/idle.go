// Package idle measures how much heap a connection costs that nothing arrives
// on: loopback TCP, and on each connection a goroutine that waits for one byte.
//
// The far ends are held by a second process, so that neither the limit of
// descriptors nor the heap is shared with them.
package idle

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace"
)

// Waiter is a way to wait for a byte.
type Waiter struct {
	Name string
	Wait func(net.Conn) error
}

// Waiters are all of them; what the first one takes is what the connection
// and its goroutine take by themselves.
var Waiters = []Waiter{
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
	{"bufio.Reader, ReadByte", func(c net.Conn) error {
		_, err := bufio.NewReader(c).ReadByte()
		return err
	}},
}

// Usage is memory, in bytes.
type Usage struct {
	Heap  int64 // live objects
	Stack int64 // of goroutines
}

// Measure holds n connections that all wait in w, and says what that takes
// more than before there were any.
func Measure(w Waiter, n int) (Usage, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Usage{}, err
	}
	defer l.Close()
	far, err := startFarEnd(l.Addr().String(), n)
	if err != nil {
		return Usage{}, err
	}
	defer far.stop()
	before := usage()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer far.stop() // which ends every wait
	for range n {
		c, err := l.Accept()
		if err != nil {
			return Usage{}, fmt.Errorf("idle: connection of %d: %w", n, err)
		}
		wg.Go(func() {
			defer c.Close()
			w.Wait(c)
		})
	}
	settle(n)
	after := usage()
	return Usage{after.Heap - before.Heap, after.Stack - before.Stack}, nil
}

// settle waits until n goroutines wait.
func settle(n int) {
	waiting := []metrics.Sample{{Name: "/sched/goroutines/waiting:goroutines"}}
	for {
		metrics.Read(waiting)
		if waiting[0].Value.Kind() != metrics.KindUint64 || waiting[0].Value.Uint64() >= uint64(n) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// usage counts what is left after garbage collection. Two cycles empty pools.
func usage() Usage {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return Usage{int64(m.HeapAlloc), int64(m.StackInuse)}
}

// Fit is the number of connections that the limit of descriptors allows, at
// most n.
func Fit(n int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return n
	}
	limit.Cur = limit.Max
	syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	const spare = 100 // for everything else
	return min(n, int(limit.Cur)-spare)
}

// farEnd is the process that holds the other ends. It is this program again.
type farEnd struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	once  sync.Once
}

// farEndVar tells the program that it is the far end: where to dial, how often.
const farEndVar = "MILLRACE_BENCH_IDLE"

func startFarEnd(addr string, n int) (*farEnd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := &farEnd{cmd: exec.Command(self)}
	f.cmd.Env = append(os.Environ(), farEndVar+"="+addr+" "+strconv.Itoa(n))
	f.cmd.Stderr = os.Stderr
	if f.stdin, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return f, f.cmd.Start()
}

func (f *farEnd) stop() {
	f.once.Do(func() {
		f.stdin.Close()
		f.cmd.Wait()
	})
}

// Main must be called before anything else by every program that measures. In
// the far end it does not return: it holds connections until its input ends.
func Main() {
	var addr string
	var n int
	if _, err := fmt.Sscan(os.Getenv(farEndVar), &addr, &n); err != nil {
		return
	}
	Fit(n)
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			fmt.Fprintln(os.Stderr, "idle: far end:", err)
			os.Exit(1)
		}
		conns[i] = c
	}
	io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(conns)
	os.Exit(0)
}
