package load

import (
	"fmt"
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
		// Processes that do nothing use no CPU time.
	}
	after := sampleProcesses([]int{pid})
	if u := usage(before, after, 1e9); u == nil || u.CPU < 30*time.Millisecond ||
		u.CPUPerGB != u.CPU.Seconds() {
		t.Errorf("the usage is %+v, want 30 ms or more", u)
	}
	if sampleProcesses([]int{pid, 1 << 30}).known {
		t.Error("a sum with a process that is not there")
	}
	if sampleProcesses(nil).known || usage(sample{}, after, 1) != nil {
		t.Error("usage of no process")
	}
}

// The name of a program may look like other fields.
func TestCPUTime(t *testing.T) {
	const rest = " S 1 42 42 0 -1 4194560 31 0 2 0 %s 9 9 20 0 1 0 8123 9 9"
	for _, name := range []string{"(sh)", "(a b)", "(a) R 1 (b c)", "(:-)))", "()"} {
		got, err := cpuTime("42 " + name + fmt.Sprintf(rest, "1234 56"))
		if want := 12900 * time.Millisecond; got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
	for _, stat := range []string{"", "42 (sh) S 1 42", "42 (sh)" + fmt.Sprintf(rest, "x 56"),
		"42 (1 2 3 4 5 6 7 8 9 10 11 12 13 14)"} {
		if got, err := cpuTime(stat); err == nil {
			t.Errorf("%q: %v and no error", stat, got)
		}
	}
}

func TestStatusBytes(t *testing.T) {
	const status = "Name:\tVmRSS: 7 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nRssAnon:\t  12 kB\nThreads:\t1\n"
	for name, want := range map[string]int64{"VmRSS": 1 << 20, "VmHWM": 2 << 20, "VmSwap": 0,
		"Threads": 0} {
		if got := statusBytes(status, name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
