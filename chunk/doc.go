// Package chunk moves files and streams in chunks of pooled memory.
//
// # Reader
//
// A [Reader] reads a source ahead of whoever works on it, by a bounded number of chunks, and cuts the chunks where records
// end, so that each can be handed to another worker as it is:
//
//	source ──▶ ┌───────────────┐ ┌───────────────┐ ┌─────────╌╌╌╌╌╌┐
//	           │ record│record │ │ record│record │ │ reco…          │
//	           └───────────────┘ └───────────────┘ └─────────╌╌╌╌╌╌┘
//	           wait for Next: at most Depth        being read
//
//	r := chunk.NewReader(src, chunk.At(chunk.Lines()))
//	defer r.Close()
//	for lines, err := range r.Chunks(ctx) {
//		...
//	}
//
// Records are [Lines], [JSON] values, of a [Fixed] length, or whatever a [CutFunc] or a [Cutter] of your own finds. The
// record that a chunk's block ends in is carried over into the next one, and that is the only copy.
//
// How many workers, how large a chunk and how far ahead can be left to a [Tuner].
//
// # Copy
//
// [Copy] is io.Copy with a context, a progress callback and a [Report] of which way the bytes went: by sendfile, splice or
// copy_file_range wherever the kernel can, also into an http.ResponseWriter that a middleware has wrapped.
//
// # FileServer
//
// [FileServer] takes the place of http.FileServer. A file is open once, however many clients download it, and what has
// to come from a disk keeps no client waiting whose own file is in memory.
//
// # Ownership
//
// [Reader.Next] gives a millrace.Ref that the caller owns and releases, on any goroutine. [Reader.Chunks] lends a slice
// until the loop's body ends, and [Reader.WriteTo] lends one to each Write; [Reader.Read] copies. A Reader borrows its
// source, or owns it with [CloseSource]. Copy borrows both ends, and FileServer its root.
package chunk
