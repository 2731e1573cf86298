//go:build linux && !(amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package chunk

import "golang.org/x/sys/unix"

// sendfileQuick has no way around the scheduler where a file's offset takes more than one register.
func sendfileQuick(out, in int, off *int64, most int) (int, error) {
	return unix.Sendfile(out, in, off, most)
}

// sendMore is send with MSG_MORE. Not all of these have a system call of that name.
func sendMore(to int, p []byte) (int, error) {
	return unix.SendmsgN(to, p, nil, nil, unix.MSG_MORE|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}
