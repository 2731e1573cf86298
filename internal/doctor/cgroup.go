package doctor

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// mostDepth bounds how many control groups within each other are looked at. Kubernetes has five.
const mostDepth = 64

// A limit is what the control groups that this process is in allow: its own, and those around it.
//
// Invariant: if set, 0 ≤ tightest ≤ own
type limit struct {
	set      bool
	tightest int64 // of all of them
	own      int64 // of the innermost; mostNumber if it has none
	unified  bool  // version 2, whose memory includes what the kernel keeps for sockets
}

// groups returns the directories of the control groups that this process is in, as far as controller goes, the innermost
// first. Version 1 has a tree for each controller, version 2 has one for all; a machine may have both.
func (h *Host) groups(controller string) (dirs []string, unified bool, err error) {
	own, err := h.read("proc/self/cgroup")
	if err != nil {
		return nil, false, err
	}
	mounts, err := h.mounts()
	if err != nil {
		return nil, false, err
	}
	within, unified, found := groupPath(own, controller)
	if !found {
		return nil, false, errors.New("this process is in no control group")
	}
	for _, m := range slices.Backward(mounts) {
		if unified && m.kind == "cgroup2" ||
			!unified && m.kind == "cgroup" && slices.Contains(strings.Split(m.super, ","), controller) {
			return ancestors(m, within), unified, nil
		}
	}
	return nil, false, errors.New("no control groups are mounted here")
}

// groupPath finds a controller's line in /proc/self/cgroup: NUMBER:CONTROLLER,…:PATH, or 0::PATH for version 2.
func groupPath(file, controller string) (path string, unified, found bool) {
	for l := range strings.Lines(file) {
		part := strings.SplitN(strings.TrimSuffix(l, "\n"), ":", 3)
		if len(part) != 3 {
			continue
		}
		if slices.Contains(strings.Split(part[1], ","), controller) {
			return part[2], false, true
		}
		if part[0] == "0" && part[1] == "" {
			path, unified, found = part[2], true, true
		}
	}
	return path, unified, found
}

// ancestors returns the directories from the group at within up to where m is mounted.
func ancestors(m mount, within string) (dirs []string) {
	// What is mounted may be a part of the tree. A path that is not in it, as /../other in a namespace, says no more than
	// that the process is somewhere around.
	rest, ok := strings.CutPrefix(within, strings.TrimSuffix(m.root, "/"))
	if !ok || rest != "" && rest[0] != '/' || slices.Contains(strings.Split(rest, "/"), "..") {
		rest = ""
	}
	top := strings.TrimPrefix(path.Clean(m.at), "/")
	for dir := path.Join(top, rest); len(dirs) < mostDepth; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
		if len(dir) <= len(top) {
			break
		}
	}
	return dirs
}

// groupLimit returns the least of what value finds in the control groups. It fails if there are none to look at.
func (h *Host) groupLimit(controller string, value func(dir string, unified bool) (int64, bool)) (limit, error) {
	dirs, unified, err := h.groups(controller)
	if err != nil {
		return limit{}, err
	}
	l := limit{tightest: mostNumber, own: mostNumber, unified: unified}
	for i, dir := range dirs {
		n, ok := value(dir, unified)
		if !ok || n >= mostNumber {
			continue
		}
		l.set = true
		l.tightest = min(l.tightest, n)
		if i == 0 {
			l.own = n
		}
	}
	return l, nil
}

// groupNumber returns the number in a group's file. "max" is none, and so is -1.
func (h *Host) groupNumber(dir, file string) (int64, bool) {
	s, err := h.read(path.Join(dir, file))
	if err != nil {
		return 0, false
	}
	n, err := parseNumber(s)
	return n, err == nil
}

// groupMemory returns the limit on memory in bytes.
func (h *Host) groupMemory() (limit, error) {
	return h.groupLimit("memory", func(dir string, unified bool) (int64, bool) {
		if unified {
			return h.groupNumber(dir, "memory.max")
		}
		return h.groupNumber(dir, "memory.limit_in_bytes")
	})
}

// groupThreads returns the limit on threads.
func (h *Host) groupThreads() (limit, error) {
	return h.groupLimit("pids", func(dir string, _ bool) (int64, bool) { return h.groupNumber(dir, "pids.max") })
}

// groupCPU returns the limit on processors, in thousandths of one.
func (h *Host) groupCPU() (limit, error) {
	return h.groupLimit("cpu", func(dir string, unified bool) (int64, bool) {
		quota, period, ok := int64(0), int64(0), false
		if unified {
			s, err := h.read(path.Join(dir, "cpu.max"))
			f := strings.Fields(s)
			if err != nil || len(f) != 2 {
				return 0, false
			}
			q, err1 := parseNumber(f[0])
			p, err2 := parseNumber(f[1])
			quota, period, ok = q, p, err1 == nil && err2 == nil
		} else {
			q, ok1 := h.groupNumber(dir, "cpu.cfs_quota_us")
			p, ok2 := h.groupNumber(dir, "cpu.cfs_period_us")
			quota, period, ok = q, p, ok1 && ok2
		}
		if !ok || quota <= 0 || period <= 0 {
			return 0, false
		}
		return max(1, quota*1000/period), true // mostNumber*1000 < 2^60
	})
}

// groupSwap returns the limit on swap, which version 2 has.
func (h *Host) groupSwap() (limit, error) {
	return h.groupLimit("memory", func(dir string, unified bool) (int64, bool) {
		if !unified {
			return 0, false
		}
		return h.groupNumber(dir, "memory.swap.max")
	})
}
