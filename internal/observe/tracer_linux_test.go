package observe

import (
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// trace returns a tracer with one figure enabled, or skips: the fallback is another test's.
func trace(t testing.TB, ports []uint16, enable func(*tracer) error) *tracer {
	t.Helper()
	tr := &tracer{system: thisSystem, ports: ports}
	err := enable(tr)
	t.Cleanup(func() {
		if err := tr.close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Skipf("the kernel does not let this process trace: %v", err)
	}
	var before KernelSample
	tr.read(&before)
	return tr
}

func TestTracePageFaults(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the tracepoint is there on x86 alone")
	}
	tr := trace(t, nil, (*tracer).enablePageFaults)
	const pages = 500
	memory, err := unix.Mmap(-1, 0, pages*unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	if err := unix.Madvise(memory, unix.MADV_NOHUGEPAGE); err != nil {
		t.Log(err)
	}
	for i := 0; i < len(memory); i += unix.Getpagesize() {
		memory[i] = 1
	}
	var s KernelSample
	if tr.read(&s); s.PageFaults < pages || s.Retransmits != 0 || s.RunQueue.Count != 0 {
		t.Errorf("%d pages were touched: %+v", pages, s)
	}
}

// pingPong has two threads on one CPU wake each other n times. Neither can go on before the other sleeps.
func pingPong(t testing.TB, n int) {
	t.Helper()
	var there, back [2]int
	for _, p := range []*[2]int{&there, &back} {
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(p[0])
		defer unix.Close(p[1])
	}
	done := make(chan error, 2)
	play := func(in, out int, first bool) {
		runtime.LockOSThread() // and never unlocked: the thread is bound to a CPU, and ends with its goroutine
		var all, one unix.CPUSet
		if err := unix.SchedGetaffinity(0, &all); err != nil {
			done <- err
			return
		}
		for cpu := 0; one.Count() == 0; cpu++ {
			if all.IsSet(cpu) {
				one.Set(cpu)
			}
		}
		err := unix.SchedSetaffinity(0, &one)
		ball := make([]byte, 1)
		for i := 0; i < n && err == nil; i++ {
			if first || i > 0 {
				_, err = unix.Write(out, ball)
			}
			if err == nil {
				_, err = unix.Read(in, ball)
			}
		}
		if !first && err == nil {
			_, err = unix.Write(out, ball)
		}
		done <- err
	}
	go play(back[0], there[1], true)
	go play(there[0], back[1], false)
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// Each time one of two threads on a CPU wakes the other, that one waits for the CPU. The scheduler's own books agree about it.
func TestTraceRunQueue(t *testing.T) {
	tr := trace(t, nil, (*tracer).enableRunQueue)
	books := &schedstat{directory: "/proc/self/task"}
	if err := books.enable(); err != nil {
		t.Fatal(err)
	}
	var s, b KernelSample
	books.read(&b)
	tr.read(&s)
	const turns = 2000
	pingPong(t, turns)
	tr.read(&s)
	books.read(&b)
	t.Logf("traced %+v", s.RunQueue)
	t.Logf("schedstat %+v", b.RunQueue)
	if s.RunQueue.Count < turns || s.RunQueue.P50 <= 0 || s.RunQueue.Max > time.Hour {
		t.Errorf("%d turns: %+v", turns, s.RunQueue)
	}
	if tr.read(&s); s.RunQueue.Count >= turns {
		t.Errorf("the reading after it has them again: %+v", s.RunQueue)
	}
	if notes := tr.notes(); len(notes) > 0 {
		t.Errorf("notes %q", notes)
	}
}

// The map of threads holds no thread that has ended: its number may become another process's.
func TestTraceForgetsThreads(t *testing.T) {
	tr := trace(t, nil, (*tracer).enableRunQueue)
	known := func(id uint32) bool { return tr.threads.Lookup(id, new(uint64)) == nil }
	id := endThread(func(id uint32) {
		if !known(id) {
			t.Errorf("thread %d is not known while it lives", id)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if !known(id) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("thread %d is remembered", id)
		}
	}
}

// endThread has a thread sleep, calls alive on it, ends it, and returns its number. A goroutine that ends while it is locked to
// a thread takes it along, but for the first one, whose number is the process's: that never ends.
func endThread(alive func(id uint32)) uint32 {
	id, found := make(chan uint32), make(chan struct{})
	var try func()
	try = func() {
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			go try()
			<-found // keeps the first thread from the other goroutine
			runtime.UnlockOSThread()
			return
		}
		close(found)
		time.Sleep(time.Millisecond)
		alive(uint32(unix.Gettid()))
		id <- uint32(unix.Gettid())
	}
	go try()
	return <-id
}

// echo returns the address of a loopback server that sends back what it gets from one connection.
func echo(t *testing.T) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c)
	}()
	t.Cleanup(func() { l.Close(); <-ended })
	return l.Addr().(*net.TCPAddr)
}

// talk sends n messages to an echo and reads them back.
func talk(t *testing.T, to *net.TCPAddr, n int) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	message := make([]byte, 100)
	for range n {
		if _, err := c.Write(message); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, message); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestTraceRTT(t *testing.T) {
	server := echo(t)
	all := trace(t, nil, (*tracer).enableRTT)
	ours := trace(t, []uint16{9, uint16(server.Port)}, (*tracer).enableRTT)
	other := trace(t, []uint16{1, 2, 3}, (*tracer).enableRTT)
	const n = 100
	talk(t, server, n)
	for _, tr := range []*tracer{all, ours} {
		var s KernelSample
		if tr.read(&s); s.RTT.Count < n || s.RTT.P50 <= 0 || s.Retransmits != 0 {
			t.Errorf("%d messages there and back, of ports %v: %+v", n, tr.ports, s)
		}
	}
	var s KernelSample
	if other.read(&s); s.RTT.Count != 0 {
		t.Errorf("of ports that nobody uses: %+v", s.RTT)
	}
}

// full returns the address of a listener that lets nobody in any more, and a connection to it that begs.
func full(t *testing.T) (begging int, port uint16) {
	t.Helper()
	socket := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	l := socket()
	if err := unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(l, 0); err != nil {
		t.Fatal(err)
	}
	a, err := unix.Getsockname(l)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 { // the queue has room for one or two
		begging = socket()
		if err := unix.Connect(begging, a); err != nil && err != unix.EINPROGRESS {
			t.Fatal(err)
		}
	}
	return begging, uint16(a.(*unix.SockaddrInet4).Port)
}

// await reads until there is a retransmission: the kernel waits for a second before it sends a SYN again.
func await(t *testing.T, read func(*KernelSample)) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var s KernelSample
		if read(&s); s.Retransmits > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no retransmission")
		}
	}
}

// A descriptor is a syscall.Conn of a file descriptor that the net package does not know.
type descriptor int

func (d descriptor) SyscallConn() (syscall.RawConn, error) { return d, nil }
func (d descriptor) Control(f func(fd uintptr)) error      { f(uintptr(d)); return nil }
func (d descriptor) Read(func(fd uintptr) bool) error      { return syscall.ENOTSUP }
func (d descriptor) Write(func(fd uintptr) bool) error     { return syscall.ENOTSUP }

func TestRetransmits(t *testing.T) {
	t.Run("tracepoint", func(t *testing.T) {
		t.Parallel()
		_, port := full(t)
		await(t, trace(t, []uint16{port}, (*tracer).enableRetransmits).read)
	})
	t.Run("TCP_INFO", func(t *testing.T) {
		t.Parallel()
		fd, _ := full(t)
		c := &connections{list: func() []syscall.Conn { return []syscall.Conn{descriptor(fd)} }}
		if err := c.enableRetransmits(); err != nil {
			t.Fatal(err)
		}
		await(t, c.read)
	})
	t.Run("snmp", func(t *testing.T) {
		t.Parallel()
		n := &snmp{path: "/proc/self/net/snmp"}
		if err := n.enable(); err != nil {
			t.Fatal(err)
		}
		n.read(new(KernelSample))
		full(t)
		await(t, n.read)
	})
}

// The programs' arithmetic is bucketOf's. A raw tracepoint can be run with values of a test's.
func TestCountBucketIsBucketOf(t *testing.T) {
	tr := trace(t, nil, (*tracer).open)
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, License: "Apache-2.0",
		Instructions: join(
			asm.Instructions{asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord)}, tr.countBucket(wordRTT), leave()),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	values := []uint64{0, 1, 31, 32, 33, 63, 64, 1<<40 - 1, 1 << 40, 1 << 63, math.MaxUint64}
	rng := rand.New(rand.NewPCG(11, 12))
	for range 500 {
		values = append(values, rng.Uint64()>>rng.IntN(64))
	}
	for _, v := range values {
		before := tr.word(wordRTT + bucketOf(v))
		if _, err := program.Run(&ebpf.RunOptions{Context: v}); err != nil {
			t.Skipf("the kernel does not run programs for tests: %v", err)
		}
		if after := tr.word(wordRTT + bucketOf(v)); after != before+1 {
			t.Errorf("%d is not counted in bucket %d", v, bucketOf(v))
		}
	}
}

func TestCloseATracerTwice(t *testing.T) {
	tr := trace(t, nil, (*tracer).enableRetransmits)
	for range 2 {
		if err := tr.close(); err != nil {
			t.Error(err)
		}
	}
	var s KernelSample
	if tr.read(&s); s != (KernelSample{}) {
		t.Errorf("%+v after close", s)
	}
}
