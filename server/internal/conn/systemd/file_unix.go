//go:build unix

package systemd

import (
	"errors"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// file returns a duplicate of a listener's descriptor. It does not use the listener's File method,
// because that method puts the shared socket into blocking mode. Accept would then block in this
// process and in the process that inherits the file.
func file(ln net.Listener) (*os.File, error) {
	conn, ok := ln.(syscall.Conn)
	if !ok {
		return nil, errors.New("it has no descriptor")
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	controlErr := raw.Control(func(of uintptr) {
		fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err := errors.Join(controlErr, err); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), ln.Addr().String()), nil
}
