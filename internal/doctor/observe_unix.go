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

// accessible says whether this user may read in a directory, and write in it.
func accessible(path string, write bool) bool {
	mode := uint32(unix.R_OK | unix.X_OK)
	if write {
		mode |= unix.W_OK
	}
	err := unix.Access(path, mode)
	return err != unix.EACCES && err != unix.EPERM // that it is mounted read-only is said elsewhere
}
