// Package chunk moves files and streams in chunks of pooled memory.
//
// [FileServer] is http.FileServer under an os.Root, with strong entity tags and precompressed
// files, and with sendfile kept behind any middleware that can be unwrapped.
//
// [Copy] is io.Copy with a context and a [Report] of which way the bytes went. It finds sendfile
// and splice behind wrapped http.ResponseWriters as well.
//
// A [Reader] reads a source ahead of the code that processes it, by a limited number of chunks. It
// cuts chunks at the ends of records, so that each can be given to another worker:
//
//	source ──▶ ┌───────────────┐ ┌───────────────┐ ┌─────────╌╌╌╌╌╌┐
//	           │ record│record │ │ record│record │ │ reco…          │
//	           └───────────────┘ └───────────────┘ └─────────╌╌╌╌╌╌┘
//	           wait for Next: at most Depth        being read
//
// Records are [Lines], [JSON] values, or found by a [CutFunc] of your own. The record that a
// chunk's block ends in is carried over into the next one, and that is the only copy.
//
// A [Tuner] moves how many workers there are, how large the chunks are and how many are read ahead.
//
// The package is larger than its neighbours because it holds these four, which share the Report,
// the fast paths and the Reader's chunks, and because each behaves like the standard library at its
// edges: conditions, deadlines, truncated files.
//
// # Ownership
//
// [Reader.Next] gives a millrace.Ref that the caller owns and releases, on any goroutine.
// [Reader.Chunks] lends a slice until the loop's body ends. A Reader borrows its source, Copy
// borrows both ends, and FileServer borrows its root.
package chunk
