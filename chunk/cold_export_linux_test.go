package chunk

import "golang.org/x/sys/unix"

// WithoutCachestat has files looked at as on a system that has no cachestat, until the returned function is called. Where
// the system has it, samples are true whatever the disk does.
func WithoutCachestat() (restore func()) {
	before := noCachestat.Swap(true)
	isMissing = func(fd int, off, n int64) bool {
		var stat unix.Cachestat_t
		err := unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(off), Len: uint64(n)}, &stat, 0)
		return err == nil && stat.Cache < uint64((off+n-1)/pageSize-off/pageSize+1)
	}
	return func() {
		noCachestat.Store(before)
		isMissing = nil
	}
}
