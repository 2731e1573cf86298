package fanout

import "github.com/millrace-io/millrace"

// A response holds the bytes that are sent to a viewer next, and the bytes that end the response.
type response struct {
	// The bytes that the connection has not accepted yet.
	pending millrace.Chain
	chunks  chunkWriter // chunks.line is sent before pending
	// The bytes that tell the client that the stream has ended. The last chunk of a response with
	// chunks is not included.
	ending millrace.Chain
	begun  bool // the first write has begun
}

func (r *response) empty() bool { return r.pending.Len() == 0 && len(r.chunks.line) == 0 }

// end prepares the last bytes of the response: r.ending, and the last chunk if the response uses
// chunks. It returns false if there are no such bytes, or if end was called before.
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
