package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// errReply says that a server answered what was not expected.
var errReply = errors.New("redis: unexpected reply")

// A rawClient is a connection for each goroutine, and no code but what moves these very bytes: it knows how long each
// reply is, and waits for it without a deadline. It is the floor, and no client.
type rawClient struct {
	opened
	site *Site
	task func(r *rawClient, conn net.Conn) (func(context.Context) error, error)
}

// opened is what is to be closed in the end.
type opened []io.Closer

func (o opened) close() {
	for _, c := range o {
		c.Close()
	}
}

// dial opens a connection that is closed with all others.
func (o *opened) dial(network, addr string) (net.Conn, error) {
	conn, err := net.Dial(network, addr)
	if err == nil {
		*o = append(*o, conn)
	}
	return conn, err
}

// open opens the file of s.
func (o *opened) open(s *Site) (*os.File, error) {
	f, err := os.Open(s.File)
	if err == nil {
		*o = append(*o, f)
	}
	return f, err
}

func (r *rawClient) worker(int) (func(context.Context) error, error) {
	conn, err := r.dial(r.site.Network, r.site.Addr)
	if err != nil {
		return nil, err
	}
	return r.task(r, conn)
}

const statusOK = "+OK\r\n"

func getRequest() []byte { return fmt.Appendf(nil, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key) }

// setHeader is a SET up to its value.
func setHeader(size int) []byte {
	return fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(setKey), setKey, size)
}

// valueHeader is what a server sends before a value.
func valueHeader(size int) string { return fmt.Sprintf("$%d\r\n", size) }

func openRawGet(_ context.Context, s *Site) (client, error) {
	return &rawClient{site: s, task: func(_ *rawClient, conn net.Conn) (func(context.Context) error, error) {
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
	}}, nil
}

func openRawSet(_ context.Context, s *Site) (client, error) {
	value, end := s.value(), []byte("\r\n")
	return &rawClient{site: s, task: func(_ *rawClient, conn net.Conn) (func(context.Context) error, error) {
		header, reply := setHeader(s.Size), make([]byte, len(statusOK))
		var pieces [3][]byte
		var rest net.Buffers
		return func(context.Context) error {
			pieces = [3][]byte{header, value, end}
			rest = pieces[:] // WriteTo eats it
			if _, err := rest.WriteTo(conn); err != nil {
				return err
			}
			return readOK(conn, reply)
		}, nil
	}}, nil
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

func openRawTo(_ context.Context, s *Site) (client, error) {
	return &rawClient{site: s, task: func(r *rawClient, conn net.Conn) (func(context.Context) error, error) {
		to, err := r.dial("tcp", s.Sink)
		if err != nil {
			return nil, err
		}
		header := valueHeader(s.Size)
		request, reply := getRequest(), make([]byte, len(header))
		return func(context.Context) error {
			if _, err := conn.Write(request); err != nil {
				return err
			}
			if _, err := io.ReadFull(conn, reply); err != nil {
				return err
			}
			if string(reply) != header {
				return errReply
			}
			if _, err := io.CopyN(to, conn, int64(s.Size)); err != nil {
				return err
			}
			_, err := io.ReadFull(conn, reply[:len("\r\n")])
			return err
		}, nil
	}}, nil
}

func openRawFile(_ context.Context, s *Site) (client, error) {
	return &rawClient{site: s, task: func(r *rawClient, conn net.Conn) (func(context.Context) error, error) {
		f, err := r.open(s)
		if err != nil {
			return nil, err
		}
		header, reply := setHeader(s.Size), make([]byte, len(statusOK))
		return func(context.Context) error {
			if _, err := conn.Write(header); err != nil {
				return err
			}
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
			if _, err := io.CopyN(conn, f, int64(s.Size)); err != nil {
				return err
			}
			if _, err := io.WriteString(conn, "\r\n"); err != nil {
				return err
			}
			return readOK(conn, reply)
		}, nil
	}}, nil
}
