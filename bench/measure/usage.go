package measure

import (
	"errors"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// usageOf reads the usage of a process from /proc, which only Linux has.
func usageOf(pid int) (Usage, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return Usage{}, err
	}
	stat, err := proc.Stat()
	status, err2 := proc.NewStatus()
	u := Usage{CPU: time.Duration(stat.CPUTime() * float64(time.Second)), Peak: int64(status.VmHWM)}
	return u, errors.Join(err, err2)
}

// childrenOf returns the PIDs of the child processes of parent. It works on Linux only.
func childrenOf(parent int) (pids []int) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	for _, proc := range all {
		if stat, err := proc.Stat(); err == nil && stat.PPID == parent {
			pids = append(pids, proc.PID)
		}
	}
	return pids
}

// title returns a process's command line, or "" if the process has ended. It works on Linux only.
func title(pid int) string {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return ""
	}
	args, err := proc.CmdLine()
	if err != nil {
		return ""
	}
	return strings.Join(args, " ")
}
