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

// unlimited is the smallest number that means "no limit". As a number of bytes, it exceeds the
// memory of any machine. It can be multiplied by the page size without overflow.
const unlimited = 1 << 50

// A host reads properties and limits of this machine and this process.
type host struct {
	dir         string // root directory, with /proc and /sys
	cpus        int    // runtime.NumCPU()
	procs       int    // runtime.GOMAXPROCS(0)
	pageSize    int64
	memoryLimit int64 // GOMEMLIMIT, or math.MaxInt64 if it is not set

	err error // first error from a method
}

func thisHost() *host {
	return &host{
		dir: "/", cpus: runtime.NumCPU(), procs: runtime.GOMAXPROCS(0),
		pageSize:    int64(os.Getpagesize()),
		memoryLimit: debug.SetMemoryLimit(-1), // a negative argument changes nothing
	}
}

// fail sets h.err to err, unless there was an earlier error. After an error, the methods of h
// return arbitrary values. A returned slice still has the length that its caller expects.
func (h *host) fail(err error) {
	if h.err == nil {
		h.err = err
	}
}

// read returns the content of a file without surrounding white space.
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

// sysctl returns the numbers in the sysctl(8) setting called name. The setting must contain n
// numbers.
func (h *host) sysctl(name string, n int) []int64 {
	s := h.read("proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	all := make([]int64, n)
	fields := strings.Fields(s)
	if len(fields) != n {
		h.fail(fmt.Errorf("%s is %q: want %d numbers", name, s, n))
		return all
	}
	for i, f := range fields {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			h.fail(fmt.Errorf("%s is %q: want numbers", name, s))
		}
		all[i] = int64(min(v, unlimited))
	}
	return all
}

func (h *host) proc() procfs.FS {
	proc, err := procfs.NewFS(filepath.Join(h.dir, "proc"))
	if err != nil {
		h.fail(errors.New("there is no /proc: this is not Linux, or a container hides it"))
	}
	return proc
}

func (h *host) self() procfs.Proc {
	self, err := h.proc().Self()
	if err != nil {
		h.fail(err)
	}
	return self
}

// openFiles returns this process's limit on open files.
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

// MemoryCap returns the number of bytes that this process may use: the limit of its control group,
// or the memory of the machine. It returns 0 if the number is unknown.
func MemoryCap() int64 {
	h := thisHost()
	most, _ := h.memoryCap()
	if h.err != nil {
		return 0
	}
	return most
}

// memoryCap returns the number of bytes that this process may use. If group is true, the number is
// the limit of a control group. Otherwise it is the memory of the machine.
func (h *host) memoryCap() (most int64, group bool) {
	limit, set := h.groupLimit("", "memory.max", parseLimit)
	if old, oldSet := h.groupLimit("memory", "memory.limit_in_bytes", parseLimit); oldSet {
		limit, set = min(limit, old), true
	}
	most = h.memory()
	if set && (h.err != nil || limit < most) {
		h.err = nil // the limit of the group is enough
		return limit, true
	}
	return most, false
}

// parseLimit parses the limit of a control group, which is a number or "max". In version 1 of
// control groups, a very large number means "max".
func parseLimit(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n < unlimited
}

// parseCPU parses cpu.max, which is "QUOTA PERIOD" or "max PERIOD". It returns the CPU time in
// thousandths of a CPU.
func parseCPU(s string) (int64, bool) {
	var quota, period int64
	if n, _ := fmt.Sscanf(s, "%d %d", &quota, &period); n != 2 || period <= 0 || quota < 0 ||
		quota > unlimited {
		return 0, false
	}
	return quota * 1000 / period, true
}

// groupLimit returns the lowest limit that a control group sets for this process. It reads the
// limits of the process's control group and of all groups above it. If there is no limit,
// groupLimit returns false for set.
//
//   - controller is the name of a controller, such as "memory", in version 1 of control groups. For
//     version 2, controller is "".
//   - name is the name of the file with the limit. Each control group has such a file.
//   - parse parses the content of the file.
func (h *host) groupLimit(controller, name string, parse func(string) (int64, bool)) (least int64,
	set bool) {
	least = math.MaxInt64
	own, looking := "", *h // a copy, to ignore errors: without groups there is no limit
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

// mountOf returns the mount that contains the directory path. The path must be absolute.
func (h *host) mountOf(path string) (best *procfs.MountInfo) {
	all, err := h.self().MountInfo()
	if err != nil {
		h.fail(err)
	}
	for _, m := range all {
		at := strings.ReplaceAll(m.MountPoint, `\040`, " ")
		rest, in := strings.CutPrefix(path, strings.TrimSuffix(at, "/"))
		// If two mounts have the same path, the later one hides the earlier one.
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
