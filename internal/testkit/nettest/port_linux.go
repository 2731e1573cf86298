package nettest

import "golang.org/x/sys/unix"

// reserve reserves a port of 127.0.0.1 with a socket that is bound to the port and does not listen.
// A server can still listen on the port, because both sockets have SO_REUSEADDR. Two processes
// cannot reserve the same port, because reserve sets SO_REUSEADDR only after its bind.
func reserve(port int) (release func(), ok bool) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	release = func() { _ = unix.Close(fd) }
	addr := &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	if unix.Bind(fd, addr) != nil ||
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) != nil ||
		!canListen(port) {
		release()
		return nil, false
	}
	return release, true
}
