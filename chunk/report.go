package chunk

import "fmt"

// A Report says how many bytes were moved, and by which way: that is how the loss of a fast path is seen.
//
// Invariant:
//
//	Bytes = Sendfile + Splice + CopyFileRange + Copied
//	Small ≤ Copied
//
// Small are, for a FileServer, bodies of up to 3 KiB, and parts of that length where a client asks for several; for Copy
// to a response, files of less than 32 KiB and parts of files of up to 3 KiB; and for Copy from socket to socket, parts
// of up to 16 KiB.
//
// Systems other than Linux may use their own fast paths within the standard library; there everything is Copied.
type Report struct {
	Bytes         int64 // all of them
	Sendfile      int64 // from a file to a socket or pipe, by sendfile(2)
	Splice        int64 // between sockets, pipes and files, by splice(2)
	CopyFileRange int64 // from a file to a file, by copy_file_range(2)
	Copied        int64 // through this process's memory
	Small         int64 // of those Copied, what could have been moved, but for so few bytes that would have cost more
}

// sniffed is how much of a body net/http may copy to see what it is, before it lets the kernel do the rest.
const sniffed = 512

// FastPath returns nil if the kernel moved the bytes, and otherwise an error that says how many went through this
// process's memory, also where there was no other way. The first 512, which net/http may have looked at, those that are
// Small, and bodies of up to 3 KiB do not matter. So it does not matter either which ranges of a file a client asks for.
// It does by which protocol, because all that goes over TLS or HTTP/2 is copied, and with Copy whether it asks for the
// HEAD alone. A test that calls it fails when a middleware that was added hides the connection:
//
//	files := chunk.FileServer(root, chunk.OnServed(func(r *http.Request, rep chunk.Report, status int) {
//		if err := rep.FastPath(); err != nil {
//			t.Error(r.URL, err)
//		}
//	}))
//
// It is for the report of one transfer. The first 512 bytes of each of those that FileStats adds up are too many.
func (r Report) FastPath() error {
	if r.Copied-r.Small <= sniffed || r.Bytes <= smallBody {
		return nil
	}
	return fmt.Errorf("chunk: %d of %d bytes were copied through memory", r.Copied, r.Bytes)
}

// plus returns what r and other moved together.
func (r Report) plus(other Report) Report {
	return Report{
		Bytes:         r.Bytes + other.Bytes,
		Sendfile:      r.Sendfile + other.Sendfile,
		Splice:        r.Splice + other.Splice,
		CopyFileRange: r.CopyFileRange + other.CopyFileRange,
		Copied:        r.Copied + other.Copied,
		Small:         r.Small + other.Small,
	}
}

// A tally counts the bytes of one transfer as they move.
type tally struct {
	Report
	progress func(bytes int64) // or nil
}

// add counts n bytes that went by a way, which is one of the Report's fields.
func (t *tally) add(way *int64, n int64) {
	if n <= 0 {
		return
	}
	*way += n
	t.Bytes += n
	if t.progress != nil {
		t.progress(t.Bytes)
	}
}
