package chunk

import (
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// kernelBuffers is what the kernel says about send buffers, in bytes. All are 0 where it does not say.
type kernelBuffers struct {
	tuned  int   // how large the kernel makes one by itself
	widest int   // how large one may be made
	share  int64 // what all that are widened may have together
}

// buffers is read once: whoever changes these settings starts servers anew.
var buffers = sync.OnceValue(func() kernelBuffers {
	k := kernelBuffers{
		tuned:  setting("net/ipv4/tcp_wmem", 2),
		widest: 2 * setting("net/core/wmem_max", 0), // the kernel doubles what it is told
	}
	// Half of what TCP may have before the kernel begins to economize leaves as much to everybody else.
	k.share = int64(setting("net/ipv4/tcp_mem", 0)) * int64(os.Getpagesize()) / 2
	if info := new(unix.Sysinfo_t); k.share == 0 && unix.Sysinfo(info) == nil {
		// A container does not see that setting, which is about this much unless somebody has changed it.
		k.share = int64(info.Totalram) * int64(info.Unit) / 16 * 3 / 4 / 2
	}
	return k
})

// setting returns a number of one of the kernel's settings, or 0.
func setting(name string, field int) int {
	text, err := os.ReadFile("/proc/sys/" + name)
	fields := strings.Fields(string(text))
	if err != nil || field >= len(fields) {
		return 0
	}
	n, _ := strconv.Atoi(fields[field])
	return n
}

// widened is how many bytes all buffers that are widened at present may have.
var widened atomic.Int64

// A wide is a connection whose send buffer may be widened while it is sent a body, and is the kernel's to tune before and after.
//
// Invariant: the sum of counted ≤ buffers().share.
type wide struct {
	raw     syscall.RawConn
	counted int64
}

// open widens the buffer to bytes, which the kernel doubles. It does not if the kernel's tuning has not come to its end, which is
// the sign that more would be used; nor if somebody else has set the buffer, or would be given less by it.
func (w *wide) open(to syscall.Conn, bytes int) {
	k := buffers()
	conn, ok := to.(*net.TCPConn)
	size := min(2*bytes, k.widest)
	if !ok || k.tuned == 0 || size <= k.tuned || w.counted > 0 {
		return
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	if widened.Add(int64(size)) > k.share {
		widened.Add(-int64(size))
		return
	}
	_ = raw.Control(func(fd uintptr) {
		locked, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BUF_LOCK)
		if err != nil || locked&unix.SOCK_SNDBUF_LOCK != 0 {
			return
		}
		if now, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF); err != nil || now < k.tuned {
			return
		}
		if unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, size/2) == nil {
			w.raw, w.counted = raw, int64(size)
		}
	})
	if w.counted == 0 {
		widened.Add(-int64(size))
	}
}

// close leaves the buffer to the kernel again, if it is widened.
func (w *wide) close() {
	if w.counted == 0 {
		return
	}
	_ = w.raw.Control(leaveBuffer)
	widened.Add(-w.counted)
	*w = wide{}
}

func leaveBuffer(fd uintptr) {
	if locked, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BUF_LOCK); err == nil {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BUF_LOCK, locked&^unix.SOCK_SNDBUF_LOCK)
	}
}
