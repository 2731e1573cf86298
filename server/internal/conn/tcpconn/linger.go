package tcpconn

import (
	"io"
	"net"
	"time"
)

// LingerTime is the time limit for closing a connection. It covers sending the final response and
// the call to Linger together.
const LingerTime = 500 * time.Millisecond

const lingerBytes = 1 << 20

// Linger must be called after the last response, before the server closes conn. The caller must
// have set a deadline for conn. Linger tells the client that no more data follows. It then reads
// until the client closes the connection, or until lingerBytes bytes have arrived. If the server
// closed conn while bytes were unread, the kernel would reset the connection, and the client would
// see the reset instead of the response.
func Linger(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, lingerBytes))
	}
}
