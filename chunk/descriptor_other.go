//go:build !linux

package chunk

import "os"

// showsRenames says that a file's stamp does not change when its name is given to another one: names are followed for each
// request.
const showsRenames = false

// stampOf returns the stamp of the file that info is of.
func stampOf(info os.FileInfo) stamp {
	return stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
}

// now returns the file's present stamp.
func (d *descriptor) now() (stamp, error) {
	info, err := d.file.Stat()
	if err != nil {
		return stamp{}, err
	}
	return stampOf(info), nil
}
