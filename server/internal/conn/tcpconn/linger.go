package tcpconn

import (
	"io"
	"net"
	"time"
)

// LingerTime is the time limit for sending a final answer and for Linger after it.
const LingerTime = 500 * time.Millisecond

// lingerBytes is the largest number of bytes that Linger reads.
const lingerBytes = 1 << 20

// Linger reads from conn for a short time after the last answer, until the client closes it. If the
// server closed a connection with unread bytes at once, the kernel would reset it, and the client
// would see the reset instead of the answer.
func Linger(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, lingerBytes))
	}
}
