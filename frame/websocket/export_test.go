package websocket

import (
	"bufio"
	"net"
)

// NewTestConn returns a Conn without a handshake.
func NewTestConn(conn net.Conn, o *Options) *Conn {
	return newConn(conn, bufio.NewReader(conn), "", *o)
}
