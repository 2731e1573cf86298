// Package chunk moves files and streams in chunks of pooled memory.
//
// [FileServer] is http.FileServer under an os.Root, with strong entity tags and precompressed
// files. It uses sendfile even if middleware wraps the response, as long as the middleware has
// Unwrap. [FileServerFS] serves an fs.FS.
//
// [Copy] is io.Copy with a context. It returns a [Report] of how the bytes were moved. It uses
// sendfile and splice for wrapped http.ResponseWriters as well.
//
// A [Reader] reads a source ahead of the code that processes it, up to a limited number of chunks.
// It cuts chunks at the ends of records, so that each chunk can go to another worker:
//
//	source ──▶ ┌───────────────┐ ┌───────────────┐ ┌─────────╌╌╌╌╌╌┐
//	           │ record│record │ │ record│record │ │ reco…          │
//	           └───────────────┘ └───────────────┘ └─────────╌╌╌╌╌╌┘
//	           wait for Next: at most Depth        being read
//
// Records are [Lines], [JSON] values, or the records of your own [CutFunc]. The Reader copies a
// record only if the record does not fit into the rest of a block, or if Next waits and the block
// is nearly empty.
//
// A [Tail] is a source for a Reader: a log file that grows and is rotated.
//
// A [Tuner] adjusts the number of workers, the size of the chunks and the number of chunks that are
// read ahead.
//
// # Ownership
//
// [Reader.Next] returns a millrace.Ref that the caller owns and releases, on any goroutine.
// [Reader.Chunks] lends each chunk to one iteration of the loop. A Reader borrows its source, Copy
// borrows src and dst, and FileServer borrows its root.
package chunk
