package load

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// sample is the state of some processes at one moment.
type sample struct {
	known bool
	cpu   time.Duration // user and system, since they began
	rss   int64
	peak  int64
}

// checkProcesses refuses processes whose use cannot be read.
func checkProcesses(pids []int) error {
	for _, pid := range pids {
		if !sampleProcesses([]int{pid}).known {
			return fmt.Errorf("load: --server-pid %d: no process of that number can be read in /proc", pid)
		}
	}
	return nil
}

// sampleProcesses adds the processes up. A process that is gone, or a system
// without /proc, makes the sum unknown: half a server is not a measurement.
func sampleProcesses(pids []int) sample {
	sum := sample{known: len(pids) > 0}
	for _, pid := range pids {
		proc, err := procfs.NewProc(pid)
		if err != nil {
			return sample{}
		}
		stat, err := proc.Stat()
		if err != nil {
			return sample{}
		}
		status, err := proc.NewStatus()
		if err != nil {
			return sample{}
		}
		sum.cpu += time.Duration(stat.CPUTime() * float64(time.Second))
		sum.rss += int64(status.VmRSS)
		sum.peak += int64(status.VmHWM)
	}
	return sum
}

func sampleSelf() sample { return sampleProcesses([]int{os.Getpid()}) }
