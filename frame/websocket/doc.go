// Package websocket implements the server side of WebSocket (RFC 6455), on connections that
// net/http has accepted. It reads messages into Chains and sends messages from Chains.
//
// [Accept] answers an HTTP/1.1 request and returns a [Conn]. [Conn.Next] reads messages, and also
// answers ping and close frames. [Conn.Write] sends a message by reference.
//
// To send one message to many clients, encode it once with [AppendMessage], for example into a
// [broadcast.Ring]. Then send the encoded message to each client by reference, with
// [Conn.WriteFrames]. A server's frames are not masked, so the bytes are the same for all clients.
//
// An idle Conn holds no buffer, neither over TCP nor over TLS. The package does not negotiate
// extensions, such as compression.
//
// [broadcast.Ring]: https://pkg.go.dev/github.com/millrace-io/millrace/broadcast#Ring
package websocket
