package load

import (
	"fmt"
	"time"
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
