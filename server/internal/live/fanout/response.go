package fanout

import "github.com/millrace-io/millrace"

// A response holds the bytes that are sent to a viewer next, and the bytes that end the response.
type response struct {
	// Sent next; kept until the connection has accepted it.
	pending millrace.Chain
	chunks  chunkWriter // chunks.line is written before pending
	// Tells the client that the stream has ended; without the last chunk.
	ending millrace.Chain
	begun  bool // the first write has begun
}

func (r *response) empty() bool { return r.pending.Len() == 0 && len(r.chunks.line) == 0 }

// end appends the bytes that end the response. It returns false if there are none, or if end was
// called before.
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
