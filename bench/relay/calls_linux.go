package relay

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A callCounter counts the system calls of some processes. What /proc/PID/io
// counts as reads and writes does not include send and recv.
type callCounter struct{ events []int }

// enterID is where the kernel says what the entry of a system call is called.
const enterID = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id"

// countCalls counts from now on: the calls of all threads that there are, and
// of those that they start.
func countCalls(pids []int) (*callCounter, error) {
	said, err := os.ReadFile(enterID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotCounted, err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(string(said)), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("relay: %s: %w", enterID, err)
	}
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Bits: unix.PerfBitInherit}
	attr.Size = uint32(unsafe.Sizeof(attr))
	c := new(callCounter)
	for _, pid := range pids {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid))
		for _, thread := range threads {
			tid, err := strconv.Atoi(filepath.Base(thread))
			if err != nil {
				continue
			}
			event, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
			if err == unix.ESRCH { // it has ended meanwhile
				continue
			}
			if err != nil {
				c.close()
				return nil, fmt.Errorf("%w: %w", ErrNotCounted, os.NewSyscallError("perf_event_open", err))
			}
			c.events = append(c.events, event)
		}
	}
	return c, nil
}

// read returns how many there were up to now.
func (c *callCounter) read() (sum uint64, err error) {
	for _, event := range c.events {
		var b [8]byte
		if _, err := unix.Read(event, b[:]); err != nil {
			return 0, os.NewSyscallError("read", err)
		}
		sum += binary.NativeEndian.Uint64(b[:])
	}
	return sum, nil
}

func (c *callCounter) close() {
	for _, event := range c.events {
		unix.Close(event)
	}
}
