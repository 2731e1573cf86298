//go:build unix

package observe

import (
	"syscall"
	"time"
)

const usageScope = "this process"

// A usage reads rusage: the processor's time and major faults always, all faults when enabled.
type usage struct {
	faults bool

	minor, major int64 // at the last reading
	user, system int64 // nanoseconds
}

func (u *usage) enableFaults() error {
	u.faults = true
	return syscall.Getrusage(syscall.RUSAGE_SELF, new(syscall.Rusage))
}

func (u *usage) read(s *KernelSample) {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return
	}
	s.MajorFaults = since(&u.major, int64(r.Majflt))
	minor := since(&u.minor, int64(r.Minflt))
	if u.faults {
		s.PageFaults = minor + s.MajorFaults
	}
	s.UserCPU = time.Duration(since(&u.user, r.Utime.Nano()))
	s.SystemCPU = time.Duration(since(&u.system, r.Stime.Nano()))
}

func (u *usage) notes() []string { return nil }
func (u *usage) close() error    { return nil }
