package measure

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Header says where, when and how a table came about.
func Header() string {
	return fmt.Sprintf("%s, %d CPUs, %s, %s, %s. `%s`",
		cpuModel(), runtime.NumCPU(), kernel(), runtime.Version(),
		time.Now().UTC().Format("2006-01-02"), command())
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, value, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
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

// command is the command line to repeat, as if built by go run.
func command() string {
	args := append([]string{"go run ./cmd/" + filepath.Base(os.Args[0])}, os.Args[1:]...)
	return strings.Join(args, " ")
}
