package relay

import (
	"io"
	"net"
	"time"
)

// What linger reads at most.
const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// linger reads on for a moment after an answer, until the publisher closes the connection. If the server closed it at
// once, with bytes that were not read, the kernel would reset it, and the publisher would see that instead of the
// answer.
func linger(conn net.Conn) {
	half, ok := conn.(interface{ CloseWrite() error })
	if ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, lingerBytes))
	}
}
