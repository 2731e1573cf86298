package doctor

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// systemValues asks for the few values that a check has a use for here.
func systemValues() map[string]string {
	values := make(map[string]string)
	if n, err := unix.SysctlUint32("kern.ipc.somaxconn"); err == nil {
		values["kern.ipc.somaxconn"] = strconv.FormatUint(uint64(n), 10)
	}
	if n, err := unix.SysctlUint64("hw.memsize"); err == nil {
		values["hw.memsize"] = strconv.FormatUint(n, 10)
	}
	if s, err := unix.Sysctl("kern.osrelease"); err == nil {
		values["kern.osrelease"] = s
	}
	return values
}
