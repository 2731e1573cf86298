// Package rtmp implements the server's side of RTMP without copying the messages' bodies.
//
// A [ServerConn] shakes hands, answers commands until the client wants to publish or to play, and
// then gives its messages. It is made of parts that may be used alone: a [Decoder] turns chunks
// into messages, an [Encoder] turns messages into chunks, [AppendAMF] and [ParseAMF] write and read
// the values of commands.
//
//	        chunk                    chunk                  chunk
//	├─ header ┬─ payload ─┼─ header ┬─ payload ─┼─ header ┬─ payload ─┤     on the wire; streams may interleave
//	          └─────┬─────┘         └─────┬─────┘         └─────┬─────┘
//	                └─────────────────────┴─────────────────────┘           a message: one Chain, cut where it arrived
//
// The body of a message is a [millrace.Chain] of the blocks that it arrived in. The Decoder cuts
// out the headers between the chunks. A client that adopts the server's chunk size, like ffmpeg,
// sends each message in one chunk: the body is one piece, or one for each block. Bodies of audio,
// video and metadata are the same as in FLV tags: see package flv.
//
// Memory follows the bytes that have arrived, never a declared length. A message, the unfinished
// messages of a connection together, the chunk streams, and the depth and number of AMF values have
// limits; a [*LimitError] names the one that was exceeded.
package rtmp
