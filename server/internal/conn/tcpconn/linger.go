package tcpconn

import (
	"io"
	"net"
	"time"
)

// LingerTime is the time limit for closing a connection. It covers sending the final response and
// the call of Linger together.
const LingerTime = 500 * time.Millisecond

// lingerBytes is the maximum number of bytes that Linger reads and discards.
const lingerBytes = 1 << 20

// Linger must be called after the last response, before the server closes conn. The caller must
// have set a deadline. Linger reads from conn until the client closes it, but at most lingerBytes.
// If the server closed conn with unread bytes, the kernel would reset the connection, and the
// client would see the reset instead of the response.
func Linger(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, lingerBytes))
	}
}
