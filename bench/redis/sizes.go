package redis

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseSizes reads sizes such as 4KiB and 10MiB, with commas between them.
func ParseSizes(s string) (sizes []int, err error) {
	for _, name := range strings.Split(s, ",") {
		digits, unit := strings.TrimSpace(name), 1
		if cut, ok := strings.CutSuffix(digits, "KiB"); ok {
			digits, unit = cut, 1<<10
		} else if cut, ok := strings.CutSuffix(digits, "MiB"); ok {
			digits, unit = cut, 1<<20
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 || n > maxSize/unit {
			return nil, fmt.Errorf("redis: a size of %q: want 1 to 512MiB, such as 4KiB", name)
		}
		sizes = append(sizes, n*unit)
	}
	return sizes, nil
}

// maxSize is what Redis allows a value to have.
const maxSize = 512 << 20

// SizeName is the opposite of ParseSizes.
func SizeName(n int) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return strconv.Itoa(n)
}
