package chunk

import "fmt"

// A Report says how many bytes were moved, and how.
//
// From a regular file to a TCP connection or an HTTP response, the numbers are exact. For all other
// copies, the types of the source and the destination determine which field counts the bytes. On
// Linux:
//
//   - From a regular file to a regular file: CopyFileRange.
//   - From a regular file to a Unix socket: Sendfile.
//   - From a TCP connection to a Unix socket: Splice.
//   - From a connection to a TCP connection, a file, or an HTTP response with a Content-Length:
//     Splice. This is not exact for a response over TLS, because its bytes are copied to be
//     encrypted.
//
// All other bytes count as Copied, and so do bytes from an io.LimitedReader to a Unix socket.
type Report struct {
	// Bytes = Sendfile + Splice + CopyFileRange + Copied
	Bytes         int64
	Sendfile      int64 // from a file to a connection, by sendfile(2)
	Splice        int64 // from a connection, by splice(2)
	CopyFileRange int64 // from a file to a file, by copy_file_range(2)
	Copied        int64 // through this process's memory
}

// sniffLen is the number of bytes of a body that net/http copies before the kernel sends the rest.
const sniffLen = 512

// FastPath returns nil if the kernel moved the bytes of one transfer. Otherwise it returns an error
// with the number of copied bytes. It ignores up to 512 copied bytes, because net/http copies the
// first bytes of every body.
//
// A response over TLS or HTTP/2, or with several ranges, is always copied.
//
// A test that calls FastPath fails when someone adds a middleware that hides the connection:
//
//	files := chunk.FileServer(root, chunk.OnServed(func(r *http.Request, sent chunk.Report, status int) {
//		if err := sent.FastPath(); err != nil {
//			t.Error(r.URL, err)
//		}
//	}))
func (r Report) FastPath() error {
	if r.Copied <= sniffLen {
		return nil
	}
	return fmt.Errorf("chunk: %d of %d bytes were copied through memory", r.Copied, r.Bytes)
}

func (r *Report) add(counter *int64, n int64) {
	*counter += n
	r.Bytes += n
}

// addFile counts n sent bytes of a file: nRead bytes as Copied, and the others as Sendfile.
func (r *Report) addFile(n, nRead int64) {
	copied := min(n, nRead)
	r.add(&r.Copied, copied)
	r.add(&r.Sendfile, n-copied)
}

func (r *Report) merge(other Report) {
	r.Bytes += other.Bytes
	r.Sendfile += other.Sendfile
	r.Splice += other.Splice
	r.CopyFileRange += other.CopyFileRange
	r.Copied += other.Copied
}
