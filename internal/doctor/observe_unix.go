//go:build unix

package doctor

import "golang.org/x/sys/unix"

// openFilesLimit returns RLIMIT_NOFILE as Go programs have it: the runtime raises the soft limit to the hard one.
func openFilesLimit() Limit {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return Limit{}
	}
	return Limit{Soft: uint64(r.Cur), Hard: uint64(r.Max), Known: true}
}
