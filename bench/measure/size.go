package measure

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseSize parses a positive number of bytes, such as 1000, 64KiB or 10MiB.
func ParseSize(s string) (int, error) {
	digits, unit := s, 1
	if cut, ok := strings.CutSuffix(s, "KiB"); ok {
		digits, unit = cut, 1<<10
	} else if cut, ok := strings.CutSuffix(s, "MiB"); ok {
		digits, unit = cut, 1<<20
	}
	n, err := strconv.ParseInt(digits, 10, 31)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("a size of %q: want one such as 64KiB", s)
	}
	return int(n) * unit, nil
}

// SizeName is the inverse of ParseSize.
func SizeName(n int) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return strconv.Itoa(n)
}
