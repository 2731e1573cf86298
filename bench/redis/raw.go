package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

// errReply says that a server sent an unexpected reply.
var errReply = errors.New("redis: unexpected reply")

// openRaw has a connection for each goroutine, and no code but what moves these very bytes: it knows how long each reply is,
// and waits for it without a deadline. It is no client, but the least that one costs.
func openRaw(s *Site, worker func(c *client, conn net.Conn) (call, error)) (*client, error) {
	return &client{worker: func(c *client) (call, error) {
		conn, err := c.dial(s.Addr)
		if err != nil {
			return nil, err
		}
		return worker(c, conn)
	}}, nil
}

const statusOK = "+OK\r\n"

func getRequest() []byte { return fmt.Appendf(nil, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key) }

// setHeader is a SET up to its value.
func setHeader(size int) []byte {
	return fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(setKey), setKey, size)
}

// valueHeader is what a server sends before a value.
func valueHeader(size int) string { return fmt.Sprintf("$%d\r\n", size) }

func openRawGet(s *Site) (*client, error) {
	return openRaw(s, func(_ *client, conn net.Conn) (call, error) {
		header := len(valueHeader(s.Size))
		request, reply := getRequest(), make([]byte, header+s.Size+len("\r\n"))
		return func(context.Context) error {
			if _, err := conn.Write(request); err != nil {
				return err
			}
			if _, err := io.ReadFull(conn, reply); err != nil {
				return err
			}
			s.saw(reply[header : header+s.Size])
			return nil
		}, nil
	})
}

func openRawSet(s *Site) (*client, error) {
	value, end := s.value(), []byte("\r\n")
	return openRaw(s, func(_ *client, conn net.Conn) (call, error) {
		header, reply := setHeader(s.Size), make([]byte, len(statusOK))
		var pieces [3][]byte
		var rest net.Buffers
		return func(context.Context) error {
			pieces = [3][]byte{header, value, end}
			rest = pieces[:] // WriteTo consumes the slice
			if _, err := rest.WriteTo(conn); err != nil {
				return err
			}
			return readOK(conn, reply)
		}, nil
	})
}

// readOK reads the reply to a SET into buf.
func readOK(conn net.Conn, buf []byte) error {
	if _, err := io.ReadFull(conn, buf); err != nil {
		return err
	}
	if string(buf) != statusOK {
		return errReply
	}
	return nil
}
