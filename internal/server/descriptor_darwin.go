package server

import "golang.org/x/sys/unix"

// read makes one system call, which does not wait.
func (d *descriptor) read(p []byte) (int, error) { return unix.Read(d.fd, p) }
