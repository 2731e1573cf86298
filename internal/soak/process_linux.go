package soak

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// lookAtProcess asks the system, which is better than to ask the process: that has one more descriptor while it answers.
func lookAtProcess(pid int) (p process, ok bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return p, false
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return p, false
	}
	return process{
		descriptors: int64(len(open)),
		threads:     statusNumber(status, "Threads:"),
		rss:         statusNumber(status, "VmRSS:") << 10,
		anonymous:   statusNumber(status, "RssAnon:") << 10,
	}, true
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
