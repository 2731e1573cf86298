// Package rtmp implements RTMP without copying the bodies of messages: the server's side, and the
// side of a client that publishes.
//
// A [ServerConn] performs the handshake, and answers commands until the client wants to publish or
// to play. Then it returns the client's messages. A [ClientConn] asks a server to take a stream. The
// parts can also be used alone: a [Decoder] reads chunks and returns messages, and an [Encoder]
// splits messages into chunks. [AppendAMF] and [ParseAMF] write and read the values of commands.
//
//	        chunk                    chunk                  chunk
//	├─ header ┬─ payload ─┼─ header ┬─ payload ─┼─ header ┬─ payload ─┤     on the wire; streams may interleave
//	          └─────┬─────┘         └─────┬─────┘         └─────┬─────┘
//	                └─────────────────────┴─────────────────────┘           a message: one Chain, cut where it arrived
//
// The body of a message is a [millrace.Chain] of the blocks of memory in which the body arrived.
// The Decoder removes the headers between the chunks. A client that adopts the server's chunk size,
// as ffmpeg does, sends each message in one chunk. The body then has one piece per block. The
// bodies of audio, video and metadata messages are the same as in FLV tags; see package flv.
//
// The memory use depends only on the bytes that have arrived, never on a declared length. There are
// limits for the size of a message, for all unfinished messages of a connection together, for the
// chunk streams, and for the depth and number of AMF values. A [*LimitError] names the limit that
// was exceeded.
//
// Half of the code is for the time before the media: the handshake, AMF and commands.
package rtmp
