//go:build !linux

package chunk

// advice to the kernel about bytes of a file.
const (
	willNeed = iota
	dontNeed
)

// heat says that it is not known what is in the page cache.
func (d *descriptor) heat(off, n int64) heat { return warm }

func (d *descriptor) advise(off, n int64, advice int) {}
