package chunk

import (
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// advice to the kernel about bytes of a file.
const (
	willNeed = unix.FADV_WILLNEED
	dontNeed = unix.FADV_DONTNEED
)

var pageSize = int64(os.Getpagesize())

// noCachestat is set when the kernel has no cachestat(2), which came with Linux 6.5.
var noCachestat atomic.Bool

// heat reports whether n bytes of the file from off on are in the page cache. Kernels from 6.14 on tell that only to a
// process that owns the file or may write to it: others look at samples.
func (d *descriptor) heat(off, n int64) heat {
	n = min(n, d.stamp.size-off)
	if n <= 0 {
		return warm
	}
	if !noCachestat.Load() && !d.secret.Load() {
		var stat unix.Cachestat_t
		area := unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
		switch unix.Cachestat(uint(d.fd), &area, &stat, 0) {
		case nil:
			switch pages := (off+n-1)/pageSize - off/pageSize + 1; {
			case stat.Cache == 0:
				return frozen
			case stat.Cache < uint64(pages):
				return cold
			}
			// Pages that are being read count as well. A disk reads them in order.
			return d.sampleAt(off + n - 1)
		case unix.ENOSYS:
			noCachestat.Store(true)
		default:
			d.secret.Store(true)
		}
	}
	return d.sample(off, n)
}

// sample looks at the first, the middle and the last byte. A read that must not wait fails if it would have to.
func (d *descriptor) sample(off, n int64) heat {
	there := 0
	for _, at := range [...]int64{off, off + n/2, off + n - 1} {
		if d.sampleAt(at) > cold {
			there++
		}
	}
	switch there {
	case 0:
		return frozen
	case 3:
		return warm
	}
	return cold
}

// sampleAt looks at one byte. It is warm if the file system does not tell.
func (d *descriptor) sampleAt(off int64) heat {
	var b [1]byte
	switch n, err := unix.Preadv2(d.fd, [][]byte{b[:]}, off, unix.RWF_NOWAIT); {
	case err == unix.EAGAIN:
		return cold
	case n == 1:
		return hot
	}
	return warm
}

// advise tells the kernel what to do with bytes of the file in the page cache; it need not.
func (d *descriptor) advise(off, n int64, advice int) { _ = unix.Fadvise(d.fd, off, n, advice) }
