package files

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileSystems are those with a name that are likely.
var fileSystems = map[int64]string{
	unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs",
	unix.BTRFS_SUPER_MAGIC: "btrfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
}

// Disk says what dir is on. On a file system that is nothing but memory there
// is no reading from a disk, and that is an error.
func Disk(dir string) (string, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	name := fileSystems[int64(fs.Type)]
	switch name {
	case "tmpfs", "ramfs":
		return "", fmt.Errorf("files: %s is on %s, which has no disk to read from: name another one with -dir", dir, name)
	case "":
		name = fmt.Sprintf("a file system of type %#x", fs.Type)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	bdi := fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(st.Dev), unix.Minor(st.Dev))
	if kb, err := os.ReadFile(bdi); err == nil {
		name += ", reading " + strings.TrimSpace(string(kb)) + " KiB ahead"
	}
	return name, nil
}

// What the kernel is told about a file.
const (
	dontNeed   = unix.FADV_DONTNEED
	sequential = unix.FADV_SEQUENTIAL
)

func advise(f *os.File, off, n int64, advice int) error {
	return os.NewSyscallError("fadvise", unix.Fadvise(int(f.Fd()), off, n, advice))
}

// chill takes a file out of the page cache. Nobody may have it mapped.
func chill(f *os.File, size int64) error {
	if err := f.Sync(); err != nil {
		return err
	}
	if err := advise(f, 0, size, dontNeed); err != nil {
		return err
	}
	if in := resident(f, size); in > size/100 {
		return fmt.Errorf("files: %d of %d bytes of %s stay in the page cache", in, size, f.Name())
	}
	return nil
}

// resident is how many bytes of a file are in the page cache, or -1 where the
// kernel does not say: before Linux 6.5.
func resident(f *os.File, size int64) int64 {
	var in unix.Cachestat_t
	if unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: uint64(size)}, &in, 0) != nil {
		return -1
	}
	return int64(in.Cache) * int64(os.Getpagesize())
}

func mapFile(f *os.File, size int64) ([]byte, error) {
	m, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	return m, os.NewSyscallError("mmap", err)
}

// mapRandom is mapFile for who says that there is no order, so that a page
// fault brings one page and not those around it.
func mapRandom(f *os.File, size int64) ([]byte, error) {
	m, err := mapFile(f, size)
	if err != nil {
		return nil, err
	}
	return m, os.NewSyscallError("madvise", unix.Madvise(m, unix.MADV_RANDOM))
}

func unmap(m []byte) error { return os.NewSyscallError("munmap", unix.Munmap(m)) }

// faults is how many page faults this process has had that waited for a disk,
// and that did not.
func faults() (major, minor int64, err error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0, os.NewSyscallError("getrusage", err)
	}
	return int64(u.Majflt), int64(u.Minflt), nil
}
