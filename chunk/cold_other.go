//go:build !linux

package chunk

// advice to the kernel about bytes of a file.
const (
	willNeed = iota
	dontNeed
)

// heat says that it is not known what is in the page cache.
func (d *descriptor) heat(off, n int64) heat { return warm }

// present says the same: nobody waits for bytes.
func (d *descriptor) present(off, n int64, buf []byte) int64 { return n }

func (d *descriptor) isGone(off, n int64) bool { return false }

func (d *descriptor) advise(off, n int64, advice int) {}
