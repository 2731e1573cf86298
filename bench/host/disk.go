//go:build linux

package host

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A disk is the file in which the kernel counts what it does to the device below a file. There is none for a file system
// that has several devices, or none.
//
// Its count is that of bytes. The kernel's own of pages, such as nr_written and those of cachestat, are not: where several
// pages are one piece in the page cache, each of them counts if one was written to.
type disk string

func diskOf(f *os.File) (disk, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", os.NewSyscallError("fstat", err)
	}
	return disk(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev))), nil
}

var nobody = math.NaN() // counts

// written is how many bytes the disk was given to write since the machine started, by anybody, or NaN if nobody counts.
func (d disk) written() float64 {
	b, err := os.ReadFile(string(d))
	if err != nil {
		return nobody
	}
	return written(string(b))
}

// written reads what the kernel says. The seventh number is a count of sectors of 512 bytes, whatever the disk has.
func written(stat string) float64 {
	f := strings.Fields(stat)
	if len(f) < 7 {
		return nobody
	}
	sectors, err := strconv.ParseUint(f[6], 10, 64)
	if err != nil {
		return nobody
	}
	return float64(sectors) * 512
}
