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

// begin makes the bytes in r.pending one chunk, except for the first n bytes, which are replies. If
// the response uses HTTP/1.1 chunks, n must be 0.
func (r *response) begin(n int) {
	if r.pending.Len() == n {
		return
	}
	r.chunks.begin(r.pending.Len() - n)
	if n > 0 && len(r.chunks.line) > 0 {
		var replies millrace.Chain
		r.pending.CutTo(&replies, n)
		replies.AppendCopy(r.chunks.line)
		r.chunks.line = nil
		replies.Merge(&r.pending)
		r.pending.Merge(&replies)
	}
}

func (r *response) release() {
	r.pending.Release()
	r.ending.Release()
}
