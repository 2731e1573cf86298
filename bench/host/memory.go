//go:build linux

package host

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// dirtyable is the memory that the kernel's ratios are of, about: what is free, and what is in the page cache.
func dirtyable() (int64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	var kib int64
	for _, name := range []string{"MemFree:", "Active(file):", "Inactive(file):"} {
		n, err := field(b, name)
		if err != nil {
			return 0, err
		}
		kib += n
	}
	return kib << 10, nil
}

// field is the number behind a name at the start of a line.
func field(b []byte, name string) (int64, error) {
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) > 1 && f[0] == name {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("host: the kernel does not say %s", name)
}
