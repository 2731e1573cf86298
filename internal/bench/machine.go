package bench

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A Machine is where a report was made. What cannot be read is empty, or 0.
type Machine struct {
	CPU        string `json:"cpu"`
	CPUs       int    `json:"cpus"` // that this process may use
	GOMAXPROCS int    `json:"gomaxprocs"`
	Memory     int64  `json:"memory_bytes"`
	Kernel     string `json:"kernel"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Governor   string `json:"governor"` // of the first processor's frequency
	Go         string `json:"go"`
	Millrace   string `json:"millrace"`
	Date       string `json:"date"`         // in UTC
	LoadBefore string `json:"load_average"` // of the last minute, before the first turn
}

func thisMachine(version string) Machine {
	m := Machine{
		CPU: runtime.GOARCH, CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Go: runtime.Version(), Millrace: version, Date: time.Now().UTC().Format(time.DateOnly), Kernel: runtime.GOOS,
	}
	m.describe(systemFile)
	return m
}

// describe adds what Linux tells in files. Elsewhere there are none, and read returns "".
func (m *Machine) describe(read func(name string) string) {
	if model := field(read("/proc/cpuinfo"), "model name"); model != "" {
		m.CPU = model
	}
	if release := read("/proc/sys/kernel/osrelease"); release != "" {
		m.Kernel = "Linux " + strings.TrimSpace(release)
	}
	if kb, err := strconv.ParseInt(strings.TrimSuffix(field(read("/proc/meminfo"), "MemTotal"), " kB"), 10, 53); err == nil {
		m.Memory = kb << 10
	}
	m.Governor = strings.TrimSpace(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
	m.LoadBefore, _, _ = strings.Cut(read("/proc/loadavg"), " ")
}

// field is the value of the first line "name: value".
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if n, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(n) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// mostSystemFile bounds what is read of a file: the first processors of a machine that has many.
const mostSystemFile = 64 << 10

func systemFile(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostSystemFile))
	if err != nil {
		return ""
	}
	return string(b)
}

// String is the machine in a line.
func (m Machine) String() string {
	s := fmt.Sprintf("%s, %d CPUs (GOMAXPROCS %d)", m.CPU, m.CPUs, m.GOMAXPROCS)
	if m.Memory > 0 {
		s += ", " + m.MemoryGiB()
	}
	s += ", " + m.Kernel + ", " + m.Go + ", millrace " + m.Millrace + ", " + m.Date
	if m.Governor != "" {
		s += ", governor " + m.Governor
	}
	return s
}

// MemoryGiB is the memory for people.
func (m Machine) MemoryGiB() string { return fmt.Sprintf("%.1f GiB", float64(m.Memory)/(1<<30)) }
