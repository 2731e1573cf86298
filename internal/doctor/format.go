package doctor

import (
	"strconv"
	"strings"
)

// size formats a number of bytes, as the kernel and the server's flags count them.
func size(n int64) string {
	const units = "KMGTP"
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, i := float64(n)/1024, 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	return decimal(v) + " " + units[i:i+1] + "iB"
}

// decimal formats a number with one digit after the point, if that is not 0.
func decimal(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// count formats a number that may be none.
func count(n int64) string {
	if n >= mostNumber {
		return "unlimited"
	}
	return strconv.FormatInt(n, 10)
}

// quote makes s one word of a shell, which takes nothing in it for more than text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// bounded makes a limit of setrlimit(2) a number to reckon with.
func bounded(n uint64) int64 { return int64(min(n, mostNumber)) }
