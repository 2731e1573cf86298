package load

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// clockTick is the unit of times in /proc/PID/stat: Linux promises 100 a
// second to user space on every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// sampleProcesses adds the processes up. A process that is gone makes the sum
// unknown: half a server is not a measurement.
func sampleProcesses(pids []int) sample {
	if len(pids) == 0 {
		return sample{}
	}
	sum := sample{known: true}
	for _, pid := range pids {
		s := sampleProcess(strconv.Itoa(pid))
		if !s.known {
			return sample{}
		}
		sum.cpu += s.cpu
		sum.rss += s.rss
		sum.peak += s.peak
	}
	return sum
}

func sampleSelf() sample { return sampleProcess("self") }

func sampleProcess(pid string) sample {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return sample{}
	}
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return sample{}
	}
	// The name, in parentheses, may contain anything: fields are counted
	// from the last parenthesis. The state is field 3, utime 14, stime 15.
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if end < 0 || len(fields) < 13 {
		return sample{}
	}
	utime, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	stime, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	return sample{
		known: err1 == nil && err2 == nil,
		cpu:   time.Duration(utime+stime) * clockTick,
		rss:   statusBytes(status, "VmRSS:"),
		peak:  statusBytes(status, "VmHWM:"),
	}
}

// statusBytes is the value of a "Name:  123 kB" line, 0 when there is none.
func statusBytes(status []byte, name string) int64 {
	_, rest, _ := bytes.Cut(status, []byte("\n"+name))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) == 0 {
		return 0
	}
	kb, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return kb * 1024
}
