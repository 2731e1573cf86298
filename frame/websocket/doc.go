// Package websocket is the server's side of WebSocket (RFC 6455): messages from and to Chains, on a
// connection that net/http has accepted.
//
// [Accept] makes a [Conn] of an HTTP/1.1 request. [Conn.Next] reads messages, and answers pings and
// closes meanwhile. [Conn.Write] sends a message by reference.
//
// To send one message to many clients, encode it once with [AppendMessage], for example into a
// [broadcast.Ring], and send shares of it with [Conn.WriteFrames]. Frames of a server are not
// masked, so they are the same bytes for all clients.
//
// An idle Conn holds no buffer, over TCP and over TLS. Extensions, such as compression, are not
// negotiated.
//
// [broadcast.Ring]: https://pkg.go.dev/github.com/millrace-io/millrace/broadcast#Ring
package websocket
