package measure

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

// clockTick is the unit of times in /proc/PID/stat: Linux promises 100 a second to user space on every architecture that Go
// runs on.
const clockTick = 10 * time.Millisecond

// dieWithParent keeps a child process from outliving an interrupted benchmark.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// stat returns the fields of /proc/PID/stat from the third on, which is the state. The name before the state, in
// parentheses, may contain anything.
func stat(pid int) ([]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 13 {
		return nil, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields, nil
}

func childrenOf(parent int) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if fields, err := stat(pid); err == nil && fields[1] == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func usageOf(pid int) (Usage, error) {
	fields, err := stat(pid)
	if err != nil {
		return Usage{}, err
	}
	utime, err1 := strconv.ParseInt(fields[11], 10, 64)
	stime, err2 := strconv.ParseInt(fields[12], 10, 64)
	status, err3 := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, ok := strings.Cut(string(status), "\nVmHWM:")
	var kb int64
	_, err4 := fmt.Sscan(rest, &kb)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || !ok {
		return Usage{}, fmt.Errorf("/proc/%d cannot be read", pid)
	}
	return Usage{CPU: time.Duration(utime+stime) * clockTick, Peak: kb << 10}, nil
}
