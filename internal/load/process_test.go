package load

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestSampleProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has /proc")
	}
	pid := os.Getpid()
	before := sampleProcesses([]int{pid})
	if !before.known || before.rss <= 0 || before.peak < before.rss {
		t.Fatalf("own process: %+v", before)
	}
	for sampleSelf().cpu < before.cpu+30*time.Millisecond {
		// The clock of CPU time only runs for those who use it.
	}
	after := sampleProcesses([]int{pid})
	if u := usage(before, after, 1e9); u == nil || u.CPU < 30*time.Millisecond || u.CPUPerGB != u.CPU.Seconds() {
		t.Errorf("usage %+v", u)
	}
	if sampleProcesses([]int{pid, 1 << 30}).known {
		t.Error("a sum with a process that is not there")
	}
	if sampleProcesses(nil).known || usage(sample{}, after, 1) != nil {
		t.Error("usage of no process")
	}
}
