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
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// unlimited bounds the numbers that are believed. It is more memory, in bytes, than a machine has, and leaves room to multiply
// by a page's size.
const unlimited = 1 << 50

// A Host is what can be seen of a machine, and of the place in it that this process has.
type Host struct {
	Dir         string // the root directory, of which /proc and /sys are read
	CPUs        int    // as runtime.NumCPU
	Procs       int    // as runtime.GOMAXPROCS(0)
	PageSize    int64
	MemoryLimit int64 // GOMEMLIMIT; math.MaxInt64 if it is not set
}

// Observe returns the Host that this process is on. A file is read when a check asks for it.
func Observe() *Host {
	return &Host{
		Dir: "/", CPUs: runtime.NumCPU(), Procs: runtime.GOMAXPROCS(0), PageSize: int64(os.Getpagesize()),
		MemoryLimit: debug.SetMemoryLimit(-1), // which changes nothing
	}
}

// read returns what is in a file, without the white space around it.
func (h *Host) read(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(h.Dir, name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &missingError{name}
	case err != nil:
		return "", fmt.Errorf("/%s cannot be read: %w", name, errors.Unwrap(err))
	}
	return strings.TrimSpace(string(b)), nil
}

// A missingError is that of a file that is not there.
type missingError struct{ name string }

func (e *missingError) Error() string {
	return fmt.Sprintf("there is no /%s: this is not Linux, or a container hides it", e.name)
}

func (*missingError) Unwrap() error { return fs.ErrNotExist }

// sysctl returns the numbers of the value that sysctl(8) calls name.
func (h *Host) sysctl(name string, want int) ([]int64, error) {
	s, err := h.read("proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return nil, err
	}
	var all []int64
	for _, f := range strings.Fields(s) {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is %q: want numbers", name, s)
		}
		all = append(all, int64(min(n, unlimited)))
	}
	if len(all) != want {
		return nil, fmt.Errorf("%s is %q: want %d numbers", name, s, want)
	}
	return all, nil
}

// self returns this process in /proc.
func (h *Host) self() (procfs.Proc, error) {
	proc, err := procfs.NewFS(filepath.Join(h.Dir, "proc"))
	if err != nil {
		return procfs.Proc{}, &missingError{"proc"}
	}
	return proc.Self()
}

// memory returns how much memory the machine has.
func (h *Host) memory() (int64, error) {
	proc, err := procfs.NewFS(filepath.Join(h.Dir, "proc"))
	if err != nil {
		return 0, &missingError{"proc"}
	}
	info, err := proc.Meminfo()
	if err != nil {
		return 0, err
	}
	if info.MemTotalBytes == nil {
		return 0, errors.New("/proc/meminfo does not say how much memory there is")
	}
	return int64(min(*info.MemTotalBytes, unlimited)), nil
}

// memoryCap returns how much memory this process may have, and whether a control group says so rather than the machine.
func (h *Host) memoryCap() (most int64, group bool, err error) {
	most, err = h.memory()
	limit, set := h.groupLimit("memory.max", parseLimit)
	if set && (err != nil || limit < most) {
		return limit, true, nil
	}
	return most, false, err
}

// parseLimit reads what a control group's file has: a number, or max.
func parseLimit(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n < unlimited
}

// groupLimit returns the least that parse finds in the files of that name of this process's control groups: its own, and those
// around it. Only version 2 is looked at.
func (h *Host) groupLimit(name string, parse func(string) (int64, bool)) (least int64, set bool) {
	least = math.MaxInt64
	own := ""
	if self, err := h.self(); err == nil {
		groups, _ := self.Cgroups()
		for _, g := range groups {
			if g.HierarchyID == 0 {
				own = g.Path
			}
		}
	}
	for dir := filepath.Join("/", own); ; dir = filepath.Dir(dir) {
		if s, err := h.read(filepath.Join("sys/fs/cgroup", dir, name)); err == nil {
			if n, ok := parse(s); ok {
				least, set = min(least, n), true
			}
		}
		if dir == "/" {
			return least, set
		}
	}
}

// mountOf returns what the directory at an absolute path is on, or nil.
func (h *Host) mountOf(path string) (*procfs.MountInfo, error) {
	self, err := h.self()
	if err != nil {
		return nil, err
	}
	all, err := self.MountInfo()
	if err != nil {
		return nil, err
	}
	var best *procfs.MountInfo
	for _, m := range all {
		at := strings.ReplaceAll(m.MountPoint, `\040`, " ")
		rest, in := strings.CutPrefix(path, strings.TrimSuffix(at, "/"))
		// Of two mounts at one place the later one hides the earlier.
		if in && (rest == "" || rest[0] == '/') && (best == nil || len(m.MountPoint) >= len(best.MountPoint)) {
			best = m
		}
	}
	return best, nil
}
