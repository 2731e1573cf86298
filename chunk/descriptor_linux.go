package chunk

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// showsRenames says that a file's stamp changes when its name is given to another one.
const showsRenames = true

// stampOf returns the stamp of the file that info is of.
func stampOf(info os.FileInfo) stamp {
	st := info.Sys().(*syscall.Stat_t) // as os promises
	return stamp{
		size:  st.Size,
		mtime: st.Mtim.Nano(),
		ctime: st.Ctim.Nano(),
		dev:   uint64(st.Dev),
		ino:   uint64(st.Ino),
	}
}

// now returns the file's present stamp.
func (d *descriptor) now() (stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(d.fd, &st); err != nil {
		return stamp{}, err
	}
	return stamp{
		size:  st.Size,
		mtime: st.Mtim.Nano(),
		ctime: st.Ctim.Nano(),
		dev:   uint64(st.Dev),
		ino:   uint64(st.Ino),
	}, nil
}
