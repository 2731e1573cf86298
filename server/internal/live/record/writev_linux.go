package record

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace"
)

// maxVector is the maximum number of pieces in one writev call.
const maxVector = 1024

// writeTo writes all bytes of c to w, and releases the written bytes. If w is a file, writeTo calls
// writev, which writes the pieces of c without a copy.
func writeTo(c *millrace.Chain, w io.Writer) error {
	f, ok := w.(*os.File)
	if !ok {
		_, err := c.WriteTo(w)
		return err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	pieces := make([][]byte, 0, min(c.Pieces(), maxVector))
	for c.Len() > 0 {
		pieces = pieces[:0]
		for p := range c.All() {
			if pieces = append(pieces, p); len(pieces) == maxVector {
				break
			}
		}
		n := 0
		var failed error
		err := raw.Write(func(fd uintptr) bool {
			n, failed = unix.Writev(int(fd), pieces)
			return failed != unix.EAGAIN
		})
		c.Discard(max(n, 0))
		switch {
		case err != nil:
			return err
		case failed == unix.EINTR:
		case failed != nil:
			return &os.PathError{Op: "writev", Path: f.Name(), Err: failed}
		case n == 0:
			return io.ErrShortWrite
		}
	}
	return nil
}
