package chunk

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// versionOf returns the version of the file that info describes.
func versionOf(info os.FileInfo) fileVersion {
	st := info.Sys().(*syscall.Stat_t) // documented in package os
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
	// The call is only advice to the kernel, so errors are ignored.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.Fadvise(int(fd), from, to-from, unix.FADV_DONTNEED)
	})
}
