package download

import (
	"fmt"
	"strconv"
	"strings"
)

// A contentRange is what a Content-Range header says.
//
// Invariant: 0 ≤ from < to, and to ≤ all unless all is unknown; or from = to = 0, which is no bytes at all.
type contentRange struct {
	from, to int64 // the bytes [from, to)
	all      int64 // that the file has, or unknown
}

// parseContentRange reads "bytes 0-9/20", "bytes 0-9/*" or "bytes */20".
func parseContentRange(text string) (contentRange, error) {
	bad := fmt.Errorf("a Content-Range of %.80q", text)
	unit, rest, _ := strings.Cut(text, " ")
	part, all, ok := strings.Cut(strings.TrimSpace(rest), "/")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return contentRange{}, bad
	}
	r := contentRange{all: unknown}
	if all != "*" {
		if r.all, ok = digits(all); !ok {
			return contentRange{}, bad
		}
	}
	if part == "*" {
		if r.all == unknown {
			return contentRange{}, bad
		}
		return r, nil
	}
	first, last, _ := strings.Cut(part, "-")
	from, ok1 := digits(first)
	end, ok2 := digits(last)
	if !ok1 || !ok2 || end < from || r.all != unknown && end >= r.all {
		return contentRange{}, bad
	}
	r.from, r.to = from, end+1
	return r, nil
}

// digits reads a number that has nothing but digits, below 1<<62: sums of two do not overflow.
func digits(s string) (int64, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n < 1<<62
}
