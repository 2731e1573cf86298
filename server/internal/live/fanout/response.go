package fanout

import "github.com/millrace-io/millrace"

// A response holds the bytes that are sent to a viewer next, and the bytes that end the response.
type response struct {
	// The bytes that are sent next. They stay here until the connection has accepted them.
	pending millrace.Chain
	chunks  chunkWriter // chunks.line is written before pending
	// The bytes that tell the client that the stream has ended. They do not include the last chunk
	// of a response with chunks.
	ending millrace.Chain
	begun  bool // the first write has begun
}

func (r *response) empty() bool { return r.pending.Len() == 0 && len(r.chunks.line) == 0 }

// end appends the bytes that tell the client of the end of the stream. It returns false if there
// are no such bytes, or if end was called before.
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
