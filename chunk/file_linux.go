package chunk

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func versionOf(info os.FileInfo) fileVersion {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok { // not a file of package os
		return fileVersion{size: info.Size(), modified: info.ModTime().UnixNano()}
	}
	return fileVersion{
		size:     st.Size,
		modified: st.Mtim.Nano(),
		changed:  st.Ctim.Nano(),
		device:   uint64(st.Dev),
		inode:    uint64(st.Ino),
	}
}

// dropFromCache drops the bytes [from, to) of f from the page cache, except pages that are in use.
func dropFromCache(f *os.File, from, to int64) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	// Ignore errors: Fadvise is only a hint to the kernel.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.Fadvise(int(fd), from, to-from, unix.FADV_DONTNEED)
	})
}
