package measure

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// A Machine records where, when and at which commit a table was measured.
type Machine struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Date   string `json:"date"`
	Commit string `json:"commit"`
}

// ThisMachine describes this machine, with today's date.
func ThisMachine() Machine {
	return Machine{
		CPU: cpuModel(), CPUs: runtime.NumCPU(), Kernel: kernel(), Go: runtime.Version(),
		Date: time.Now().UTC().Format("2006-01-02"), Commit: commit(),
	}
}

func (m Machine) String() string {
	return fmt.Sprintf("%s, %d CPUs, %s, %s, %s, commit %s", m.CPU, m.CPUs, m.Kernel, m.Go, m.Date,
		m.Commit)
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), ":"); ok &&
			strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(release))
}

// commit asks git for the current commit, because `go run` does not record it. The suffix + means
// that Go files have changed since the commit.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=7", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(out))
	changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--",
		":(top)*.go").Output()
	if err == nil && len(changed) > 0 {
		name += "+"
	}
	return name
}
