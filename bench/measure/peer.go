package measure

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

// Serve runs a child process's TCP server, and prints its address. It calls handle in a new
// goroutine for each connection, and returns when the standard input ends.
func Serve(handle func(net.Conn)) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// StartPeer starts a child process (see [RegisterChild]) that prints its address as the first line.
// The caller must close the Child.
func StartPeer(name string, args ...string) (addr string, c *Child, err error) {
	cmd, err := Self(name, args...)
	if err != nil {
		return "", nil, err
	}
	if c, err = StartChild(cmd); err != nil {
		return "", nil, err
	}
	if addr, err = c.Line(); err != nil {
		c.Close()
		return "", nil, fmt.Errorf("the process %s does not start: %w", name, err)
	}
	return strings.TrimSpace(addr), c, nil
}
