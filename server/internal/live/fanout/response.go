package fanout

import "github.com/millrace-io/millrace"

// A response has the next bytes of a viewer, and the last ones.
type response struct {
	// Of the stream; the references last until the connection has taken the bytes.
	pending millrace.Chain
	chunks  chunkWriter // its line is written before pending
	// Tells the client of the end of the stream, in addition to the last chunk.
	ending millrace.Chain
	begun  bool // the first write has begun
}

// empty reports whether the connection has taken all bytes.
func (r *response) empty() bool { return r.pending.Len() == 0 && len(r.chunks.line) == 0 }

// end appends the bytes that tell the client of the end of the stream. It returns false if there
// are none, and after the first call.
func (r *response) end() bool {
	if !r.chunks.end() && r.ending.Len() == 0 {
		return false
	}
	r.pending.Merge(&r.ending)
	return true
}

func (r *response) release() {
	r.pending.Release()
	r.ending.Release()
}
