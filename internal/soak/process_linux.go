package soak

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// lookAtProcess asks the system, which is better than to ask the process: that has one more descriptor while it answers.
// A process has some of each, so that 0 is an error: a quantity that cannot be read would never be seen to grow.
func lookAtProcess(pid int) (process, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return process{}, err
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return process{}, err
	}
	p := process{
		descriptors: int64(len(open)),
		threads:     statusNumber(status, "Threads:"),
		rss:         statusNumber(status, "VmRSS:") << 10,
		anonymous:   statusNumber(status, "RssAnon:") << 10,
	}
	if p.descriptors == 0 || p.threads == 0 || p.rss == 0 || p.anonymous == 0 {
		return p, fmt.Errorf("/proc/%d: %d descriptors, %d threads, %d bytes of RSS, %d of them anonymous: want some of each",
			pid, p.descriptors, p.threads, p.rss, p.anonymous)
	}
	return p, nil
}

// statusNumber is the number in the line of that name, 0 when there is none.
func statusNumber(status []byte, name string) int64 {
	_, rest, _ := bytes.Cut(status, []byte("\n"+name))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return n
}
