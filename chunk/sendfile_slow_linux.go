//go:build linux && !(amd64 || arm64 || loong64 || ppc64le || riscv64 || s390x)

package chunk

import "golang.org/x/sys/unix"

// sendfileQuick has no way around the scheduler where a file's offset takes more than one register.
func sendfileQuick(out, in int, off *int64, most int) (int, error) {
	return unix.Sendfile(out, in, off, most)
}
