package load

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// sample is the total CPU time and memory, in bytes, of one or more processes.
type sample struct {
	known bool
	cpu   time.Duration // user and system time since the start of the processes
	rss   int64
	peak  int64
}

func checkProcesses(pids []int) error {
	for _, pid := range pids {
		if !sampleProcesses([]int{pid}).known {
			return fmt.Errorf(
				"load: --server-pid %d: no process of that number can be read in /proc", pid)
		}
	}
	return nil
}

// sampleProcesses returns the total CPU time and the total memory of the processes. It sets
// sample.known to false if pids is empty or if it cannot read the values of one of the processes.
func sampleProcesses(pids []int) sample {
	sum := sample{known: len(pids) > 0}
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil {
			return sample{}
		}
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			return sample{}
		}
		cpu, err := cpuTime(string(stat))
		if err != nil {
			return sample{}
		}
		sum.cpu += cpu
		sum.rss += statusBytes(string(status), "VmRSS")
		sum.peak += statusBytes(string(status), "VmHWM")
	}
	return sum
}

func sampleSelf() sample { return sampleProcesses([]int{os.Getpid()}) }

// userHZ is the number of clock ticks per second in /proc/PID/stat on all architectures.
const userHZ = 100

// cpuTime returns the user and system time in /proc/PID/stat, which are fields 14 and 15. Field 2
// is the name of the program in parentheses, which may itself contain spaces and parentheses.
func cpuTime(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // begins with field 3
	if len(fields) < 13 {
		return 0, fmt.Errorf("load: malformed /proc/PID/stat: %q", stat)
	}
	var sum time.Duration
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("load: malformed /proc/PID/stat: %w", err)
		}
		sum += time.Duration(ticks) * time.Second / userHZ
	}
	return sum, nil
}

// statusBytes returns the size with this name, such as VmRSS, in bytes. status is the content of
// /proc/PID/status, which has lines such as "VmRSS: 1024 kB". statusBytes returns 0 for a process
// without memory, such as a zombie.
func statusBytes(status, name string) int64 {
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != name+":" {
			continue
		}
		if kB, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			return kB << 10
		}
	}
	return 0
}
