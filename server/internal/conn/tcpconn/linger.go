package tcpconn

import (
	"io"
	"net"
	"time"
)

// LingerTime is the deadline for an answer and Linger after it.
const LingerTime = 500 * time.Millisecond

// lingerBytes limits how much Linger reads.
const lingerBytes = 1 << 20

// Linger reads on for a moment after an answer, until the client closes the connection. If the
// server closed it at once, with bytes that were not read, the kernel would reset it, and the
// client would see that instead of the answer.
func Linger(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, lingerBytes))
	}
}
