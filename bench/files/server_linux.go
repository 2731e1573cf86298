package files

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of times in /proc/PID/stat: Linux promises 100 a
// second to user space on every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// dieWithParent keeps a server from outliving an interrupted benchmark.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// statOf is /proc/PID/stat from the third field on, which is the state. The
// name before it, in parentheses, may contain anything.
func statOf(pid int) ([]string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

// children are the processes whose parent is pid.
func children(pid int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		child, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if fields, err := statOf(child); err == nil && fields[1] == strconv.Itoa(pid) {
			pids = append(pids, child)
		}
	}
	return pids
}

func useOf(pid int) (usage, error) {
	fields, err := statOf(pid)
	if err != nil {
		return usage{}, err
	}
	utime, err1 := strconv.ParseInt(fields[11], 10, 64)
	stime, err2 := strconv.ParseInt(fields[12], 10, 64)
	status, err3 := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, ok := strings.Cut(string(status), "\nVmHWM:")
	if err1 != nil || err2 != nil || err3 != nil || !ok {
		return usage{}, fmt.Errorf("/proc/%d cannot be read", pid)
	}
	var kb int64
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		return usage{}, err
	}
	return usage{cpu: time.Duration(utime+stime) * clockTick, peak: kb << 10}, nil
}

// LoadAverage is the system's over the last minute.
func LoadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	load, _, _ := strings.Cut(string(b), " ")
	return load
}
