package redis

import (
	"context"
	"fmt"
	"io"
	"net"
)

// The raw socket contenders show the minimum cost of a client. They have one connection per
// goroutine, know the length of each reply, and use no deadlines.

func (f *fixture) dial() (net.Conn, error) {
	conn, err := net.Dial("tcp", f.addr)
	if err == nil {
		f.add(conn)
	}
	return conn, err
}

func rawGet(f *fixture) (call, error) {
	conn, err := f.dial()
	if err != nil {
		return nil, err
	}
	header := len(fmt.Sprintf("$%d\r\n", f.size)) // length of the reply before the value
	request := fmt.Appendf(nil, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
	reply := make([]byte, header+f.size+len("\r\n"))
	return func(context.Context) error {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, reply); err != nil {
			return err
		}
		f.observe(reply[header : header+f.size])
		return nil
	}, nil
}

func rawSet(f *fixture) (call, error) {
	conn, err := f.dial()
	if err != nil {
		return nil, err
	}
	const ok = "+OK\r\n"
	header := fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(setKey), setKey,
		f.size)
	value, end, reply := f.value(), []byte("\r\n"), make([]byte, len(ok))
	var pieces [3][]byte
	var rest net.Buffers
	return func(context.Context) error {
		pieces = [3][]byte{header, value, end}
		rest = pieces[:] // WriteTo modifies the slice
		if _, err := rest.WriteTo(conn); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, reply); err != nil {
			return err
		}
		if string(reply) != ok {
			return fmt.Errorf("redis: unexpected reply %q", reply)
		}
		return nil
	}, nil
}
