package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// unlimited is the smallest number that is considered to mean "no limit". As a number of bytes it
// is more memory than any machine has. It can be multiplied by the page size without overflow.
const unlimited = 1 << 50

// A host gives access to the state of a machine and of this process on it.
type host struct {
	dir         string // the root directory, which contains /proc and /sys
	cpus        int    // runtime.NumCPU()
	procs       int    // runtime.GOMAXPROCS(0)
	pageSize    int64
	memoryLimit int64 // GOMEMLIMIT, or math.MaxInt64 if it is not set

	err error // the first error of a read
}

// thisHost returns the host on which this process runs. Its files are read only when a check needs
// them.
func thisHost() *host {
	return &host{
		dir: "/", cpus: runtime.NumCPU(), procs: runtime.GOMAXPROCS(0),
		pageSize:    int64(os.Getpagesize()),
		memoryLimit: debug.SetMemoryLimit(-1), // a negative argument changes nothing
	}
}

// fail records err if it is the first error. After an error the methods return unspecified values,
// but their slices have the full length.
func (h *host) fail(err error) {
	if h.err == nil {
		h.err = err
	}
}

// read returns the content of a file, with surrounding white space removed.
func (h *host) read(name string) string {
	b, err := os.ReadFile(filepath.Join(h.dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		h.fail(fmt.Errorf("there is no /%s: this is not Linux, or a container hides it", name))
	case err != nil:
		h.fail(fmt.Errorf("/%s cannot be read: %w", name, errors.Unwrap(err)))
	}
	return strings.TrimSpace(string(b))
}

// sysctl returns the numbers in the value of the sysctl(8) setting name. It is an error if there
// are not exactly want numbers.
func (h *host) sysctl(name string, want int) []int64 {
	s := h.read("proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	all := make([]int64, want)
	fields := strings.Fields(s)
	if len(fields) != want {
		h.fail(fmt.Errorf("%s is %q: want %d numbers", name, s, want))
		return all
	}
	for i, f := range fields {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			h.fail(fmt.Errorf("%s is %q: want numbers", name, s))
		}
		all[i] = int64(min(n, unlimited))
	}
	return all
}

// proc returns the proc file system.
func (h *host) proc() procfs.FS {
	proc, err := procfs.NewFS(filepath.Join(h.dir, "proc"))
	if err != nil {
		h.fail(errors.New("there is no /proc: this is not Linux, or a container hides it"))
	}
	return proc
}

// self returns this process's entry in /proc.
func (h *host) self() procfs.Proc {
	self, err := h.proc().Self()
	if err != nil {
		h.fail(err)
	}
	return self
}

// openFiles returns the limit on open files of this process.
func (h *host) openFiles() int64 {
	limits, err := h.self().Limits()
	if err != nil {
		h.fail(err)
	}
	return int64(min(limits.OpenFiles, unlimited))
}

// memory returns the size of the machine's memory in bytes.
func (h *host) memory() int64 {
	info, err := h.proc().Meminfo()
	switch {
	case err != nil:
		h.fail(err)
	case info.MemTotalBytes == nil:
		h.fail(errors.New("/proc/meminfo does not say how much memory there is"))
	default:
		return int64(min(*info.MemTotalBytes, unlimited))
	}
	return 0
}

// MemoryCap returns the largest number of bytes that this process may use, or 0 if the limit is
// unknown. The limit is that of the process's control group or of the machine.
func MemoryCap() int64 {
	h := thisHost()
	most, _ := h.memoryCap()
	if h.err != nil {
		return 0
	}
	return most
}

// memoryCap returns the largest number of bytes that this process may use. group reports whether
// the limit is that of a control group instead of the machine.
func (h *host) memoryCap() (most int64, group bool) {
	limit, set := h.groupLimit("", "memory.max", parseLimit)
	if old, oldSet := h.groupLimit("memory", "memory.limit_in_bytes", parseLimit); oldSet {
		limit, set = min(limit, old), true
	}
	most = h.memory()
	if set && (h.err != nil || limit < most) {
		h.err = nil // the limit of the group suffices
		return limit, true
	}
	return most, false
}

// parseLimit parses a control group's limit: a number, or "max". In version 1 a very large number
// means "max".
func parseLimit(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n < unlimited
}

// parseCPU parses cpu.max, which is "QUOTA PERIOD" or "max PERIOD", into thousandths of a CPU.
func parseCPU(s string) (int64, bool) {
	var quota, period int64
	if n, _ := fmt.Sscanf(s, "%d %d", &quota, &period); n != 2 || period <= 0 || quota < 0 ||
		quota > unlimited {
		return 0, false
	}
	return quota * 1000 / period, true
}

// groupLimit returns the lowest limit that parse finds in the files called name of this process's
// control group and its ancestors. In version 1 of control groups, each controller has its own
// hierarchy of groups. For version 2, controller is "".
func (h *host) groupLimit(controller, name string, parse func(string) (int64, bool)) (least int64,
	set bool) {
	least = math.MaxInt64
	own, looking := "", *h // a copy: errors do not count, because without groups there is no limit
	groups, _ := looking.self().Cgroups()
	for _, g := range groups {
		if controller == "" && g.HierarchyID == 0 || slices.Contains(g.Controllers, controller) {
			own = g.Path
		}
	}
	for dir := filepath.Join("/", own); ; dir = filepath.Dir(dir) {
		if n, ok := parse(looking.read(filepath.Join("sys/fs/cgroup", controller, dir, name))); ok {
			least, set = min(least, n), true
		}
		if dir == "/" {
			return least, set
		}
	}
}

// mountOf returns the mount that contains the directory at an absolute path.
func (h *host) mountOf(path string) (best *procfs.MountInfo) {
	all, err := h.self().MountInfo()
	if err != nil {
		h.fail(err)
	}
	for _, m := range all {
		at := strings.ReplaceAll(m.MountPoint, `\040`, " ")
		rest, in := strings.CutPrefix(path, strings.TrimSuffix(at, "/"))
		// Of two mounts at the same place, the later one hides the earlier.
		if in && (rest == "" || rest[0] == '/') &&
			(best == nil || len(m.MountPoint) >= len(best.MountPoint)) {
			best = m
		}
	}
	if best == nil {
		h.fail(fmt.Errorf("the mount of %s is unknown", path))
	}
	return best
}
