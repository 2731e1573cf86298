// Package websocket implements the server side of WebSocket (RFC 6455), on connections that
// net/http has accepted. It does not negotiate extensions, such as compression.
//
// [Accept] answers an HTTP/1.1 request and returns a [Conn]. [Conn.Next] reads messages into
// Chains, and also answers ping and close frames. [Conn.Write] sends a message by reference. An
// idle Conn holds no buffer, neither over TCP nor over TLS.
//
// To send one message to many clients, encode it once with [AppendMessage], for example into a
// [broadcast.Ring], and send it to each client with [Conn.WriteFrames]. A server's frames are not
// masked, so the bytes are the same for all clients.
//
// A quarter of the code is the handshake, which net/http does not have.
//
// [broadcast.Ring]: https://pkg.go.dev/github.com/millrace-io/millrace/broadcast#Ring
package websocket
