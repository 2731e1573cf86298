// Package chunk moves files and streams in chunks of pooled memory.
//
// [FileServer] serves the files in an os.Root like http.FileServer, with strong entity tags and
// precompressed files. It uses sendfile even through middleware that has an Unwrap method.
// [FileServerFS] serves an fs.FS.
//
// [Copy] copies like io.Copy, until a context ends. It returns a [Report] that says how the bytes
// were moved. It uses sendfile and splice for wrapped http.ResponseWriters as well.
//
// A [Reader] reads a source ahead of the code that processes the bytes, up to a limited number of
// chunks. Each chunk has only complete records, so different workers can process different chunks:
//
//	source ──▶ ┌───────────────┐ ┌───────────────┐ ┌─────────╌╌╌╌╌╌┐
//	           │ record│record │ │ record│record │ │ reco…          │
//	           └───────────────┘ └───────────────┘ └─────────╌╌╌╌╌╌┘
//	           wait for Next: at most Depth        being read
//
// Records are [Lines], [JSON] values, or the records that your own [CutFunc] finds. The Reader
// copies a record only if it does not fit into the rest of its block, or if Next waits and the
// block is nearly empty.
//
// A [Tail] is a source for a Reader. It follows a log file that grows and is rotated.
//
// A [Tuner] adjusts the number of workers, the size of the chunks and the number of chunks read
// ahead.
//
// # Ownership
//
// [Reader.Next] returns a millrace.Ref that the caller owns and releases, on any goroutine.
// [Reader.Chunks] lends each chunk to one iteration of the loop. A Reader borrows its source, Copy
// borrows src and dst, and FileServer borrows its root.
//
// More than a third of the code serves files and follows logs: requests with conditions, ranges and
// encodings, and logs that are rotated.
package chunk
