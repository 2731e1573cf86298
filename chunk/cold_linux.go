package chunk

import (
	"math/rand/v2"
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

// isMissing, if there is one, says that some of n bytes from off on are not in the page cache. Tests have one, because a disk
// that answers before the kernel looks makes samples find everything there, for a while, on a busy machine.
var isMissing func(fd int, off, n int64) bool

// heat reports whether n bytes of the file from off on are in the page cache.
func (d *descriptor) heat(off, n int64) heat {
	n = min(n, d.stamp.size-off)
	if n <= 0 {
		return warm
	}
	if cached, ok := d.count(off, n); ok {
		if pages := (off+n-1)/pageSize - off/pageSize + 1; cached < uint64(pages) {
			return cold
		}
		// Pages that are being read count as well. A disk reads them in order.
		return d.sampleAt(off + n - 1)
	}
	if sight(d.sight.Load()) == sampling {
		return d.sample(off, n)
	}
	return warm
}

// count returns how many pages that hold some of n bytes from off on are in the page cache. Kernels from 6.14 on tell that
// only to a process that owns the file or may write to it: others look at samples.
func (d *descriptor) count(off, n int64) (pages uint64, ok bool) {
	if sight(d.sight.Load()) != counting {
		return 0, false
	}
	if !noCachestat.Load() {
		var stat unix.Cachestat_t
		area := unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
		switch unix.Cachestat(uint(d.fd), &area, &stat, 0) {
		case nil:
			return stat.Cache, true
		case unix.ENOSYS:
			noCachestat.Store(true)
		}
	}
	d.beginSampling(off)
	return 0, false
}

// beginSampling has samples tell what is in the page cache. A sample that is not there makes the kernel read it, and, if it
// takes that for the beginning of something, megabytes behind it, after which samples find everything there and nobody
// knows who has brought it. A file that is read at random is one of which the kernel reads what it is asked for: one page
// for a sample. Where the file system does not tell, the kernel does as it always does.
func (d *descriptor) beginSampling(off int64) {
	d.advise(0, 0, unix.FADV_RANDOM)
	s := sampling
	if d.sampleAt(off) == warm {
		d.advise(0, 0, unix.FADV_NORMAL)
		s = blind
	}
	d.sight.Store(int32(s))
}

// sample looks at the first byte, at one in each megabyte and at the last one, until one is not there. Which ones is left to
// chance: the page of one that was missing before has been read since.
func (d *descriptor) sample(off, n int64) heat {
	end := off + n
	if d.sampleAt(off) <= cold {
		return cold
	}
	if off/pageSize == (end-1)/pageSize {
		return warm
	}
	for at := off; at < end; at += coldStep {
		if d.sampleAt(at+rand.Int64N(min(coldStep, end-at))) <= cold {
			return cold
		}
	}
	return min(d.sampleAt(end-1), warm)
}

// present returns how many of the n bytes from off on are in the page cache, as far as they follow one another. Where only
// samples tell, the bytes themselves are read, to buf, as long as that goes without waiting.
func (d *descriptor) present(off, n int64, buf []byte) int64 {
	if sight(d.sight.Load()) != sampling {
		if d.heat(off, n) <= cold {
			return 0
		}
		return n
	}
	for at := off; at < off+n; {
		want := buf[:min(int64(len(buf)), off+n-at)]
		if isMissing != nil && isMissing(d.fd, at, int64(len(want))) {
			return at - off
		}
		m, err := unix.Preadv2(d.fd, [][]byte{want}, at, unix.RWF_NOWAIT)
		if err != nil || m == 0 {
			return at - off
		}
		at += int64(m)
	}
	return n
}

// isGone reports whether none of n bytes from off on, which were read a moment ago, is in the page cache.
func (d *descriptor) isGone(off, n int64) bool {
	if cached, ok := d.count(off, n); ok {
		return cached == 0
	}
	return d.sampleAt(off) <= cold && d.sampleAt(off+n/2) <= cold && d.sampleAt(off+n-1) <= cold
}

// sampleAt looks at one byte. It is warm if the file system does not tell.
func (d *descriptor) sampleAt(off int64) heat {
	var b [1]byte
	missing := isMissing != nil && isMissing(d.fd, off, 1)
	switch n, err := unix.Preadv2(d.fd, [][]byte{b[:]}, off, unix.RWF_NOWAIT); {
	case err == unix.EAGAIN || missing:
		return cold
	case n == 1:
		return hot
	}
	return warm
}

// advise tells the kernel what to do with bytes of the file in the page cache; it need not.
func (d *descriptor) advise(off, n int64, advice int) { _ = unix.Fadvise(d.fd, off, n, advice) }
