// Package ingest reads the connections of publishers. If the system allows it, it reads all
// connections at regular intervals, called beats. Otherwise it reads bytes as they arrive.
//
// Half of the code reads connections at beats on Linux: clock_linux.go.
package ingest

import (
	"io"
	"net"
)

// NewConn returns a Conn that reads from conn, the connection of a publisher. While the Conn reads,
// it calls the methods of the Session s. The Conn owns conn until Release.
func NewConn(conn net.Conn, s Session, cfg Config) Conn {
	if c := newClockConn(conn, s, cfg); c != nil {
		return c
	}
	return &idleConn{Reader: NewReader(conn, conn.SetDeadline, s, cfg.Silence), conn: conn}
}

// An idleConn reads a connection as soon as bytes arrive. If the publisher sends nothing for too
// long, the deadline of the connection ends the read. The same deadline ends the write of an answer
// that the publisher does not read.
type idleConn struct {
	*Reader
	conn net.Conn
}

func (c *idleConn) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *idleConn) Write(p []byte) (int, error) { return c.conn.Write(p) }

func (c *idleConn) Release() (net.Conn, error) {
	c.Stop()
	return c.conn, nil
}
