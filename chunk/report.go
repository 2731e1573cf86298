package chunk

import "fmt"

// A Report states how many bytes were moved, and in which way.
//
// If the bytes of a file are sent to a connection or a response, the Report counts them as Copied
// if they pass through this process's memory. It counts all other bytes by the types of src and
// dst. Between two regular files they are CopyFileRange. From one connection to another, to a file
// or to a response with a Content-Length they are Splice. These are the ways of the standard
// library on Linux. A connection that is copied to a response over TLS is therefore counted as
// Splice, although its bytes are copied to be encrypted.
type Report struct {
	// Bytes = Sendfile + Splice + CopyFileRange + Copied
	Bytes         int64 // all of them
	Sendfile      int64 // from a file to a connection, by sendfile(2)
	Splice        int64 // from a connection, by splice(2)
	CopyFileRange int64 // from a file to a file, by copy_file_range(2)
	Copied        int64 // through this process's memory
}

// sniffLen is the number of bytes of a body that net/http copies before it lets the kernel send the
// rest.
const sniffLen = 512

// FastPath returns nil if the kernel moved the bytes of one transfer, and otherwise an error that
// states how many were copied. It ignores the first 512 bytes, which net/http always copies.
//
// Bytes over TLS or HTTP/2 are always copied, and so are the bytes of a request for several ranges.
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

// add counts n bytes in way, which is one of the Report's fields.
func (r *Report) add(way *int64, n int64) {
	*way += n
	r.Bytes += n
}

// addFile counts n bytes of a file. This process read the first read bytes of them, and the kernel
// sent the others.
func (r *Report) addFile(n, read int64) {
	copied := min(n, read)
	r.add(&r.Copied, copied)
	r.add(&r.Sendfile, n-copied)
}

// merge adds other to r.
func (r *Report) merge(other Report) {
	r.Bytes += other.Bytes
	r.Sendfile += other.Sendfile
	r.Splice += other.Splice
	r.CopyFileRange += other.CopyFileRange
	r.Copied += other.Copied
}
