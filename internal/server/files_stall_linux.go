package server

import (
	"net"
	"net/http"
	"syscall"

	"golang.org/x/sys/unix"
)

// An acknowledgement shows how far a client is by what it has acknowledged. The kernel sends by itself here, with no call
// returning to this process for as long as it does; and it takes megabytes that no client has seen.
type acknowledgement struct {
	conn *net.TCPConn
	raw  syscall.RawConn

	info *unix.TCPInfo
	err  error
}

// acknowledged returns nil if the client's TCP connection is not the response's alone.
func acknowledged(r *http.Request) taking {
	conn := sendingConn(r)
	if conn == nil {
		return nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil
	}
	return &acknowledgement{conn: conn, raw: raw}
}

// kernelSends reports whether a request came by HTTP/1, straight through TCP: then the kernel sends the file.
func kernelSends(r *http.Request) bool { return r.TLS == nil && sendingConn(r) != nil }

// sendingConn returns the TCP connection that a request has for itself, which is one that came by HTTP/1, or nil.
func sendingConn(r *http.Request) *net.TCPConn {
	c, ok := r.Context().Value(connKey{}).(net.Conn)
	if !ok || r.ProtoMajor != 1 {
		return nil
	}
	conn, _ := wire(c).(*net.TCPConn)
	return conn
}

func (a *acknowledgement) progress() (taken uint64, owed bool) {
	a.info, a.err = nil, nil
	err := a.raw.Control(func(fd uintptr) {
		a.info, a.err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err != nil || a.err != nil {
		return 0, false // it is closed
	}
	return a.info.Bytes_acked, a.info.Unacked > 0 || a.info.Notsent_bytes > 0
}

// abandon has the kernel forget what it still has for the client, which would otherwise take its memory for minutes.
func (a *acknowledgement) abandon() { _ = a.conn.SetLinger(0) }
