//go:build linux

package host

import (
	"math/bits"
	"time"
)

// A latency has how long many operations took, in classes of which each is a sixteenth longer than the one before, at most.
type latency struct {
	classes [64 * 16]int64
	n       int64
	longest time.Duration
	stalled time.Duration // the sum of those from stall on
}

// stall is from where a write is one that waited. From the page cache's side it takes microseconds.
const stall = 10 * time.Millisecond

func class(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < 16 {
		return int(n)
	}
	shift := bits.Len64(n) - 5 // leaves a leading 1 and four bits
	return (shift+1)*16 + int(n>>shift) - 16
}

// top is the longest of a class.
func top(class int) time.Duration {
	if class < 16 {
		return time.Duration(class)
	}
	shift := class/16 - 1
	return time.Duration((uint64(class%16)+17)<<shift - 1)
}

func (l *latency) add(d time.Duration) {
	l.classes[class(d)]++
	l.n++
	l.longest = max(l.longest, d)
	if d >= stall {
		l.stalled += d
	}
}

func (l *latency) merge(m *latency) {
	for i, n := range m.classes {
		l.classes[i] += n
	}
	l.n += m.n
	l.longest = max(l.longest, m.longest)
	l.stalled += m.stalled
}

// quantile is what that part of the operations took at most.
func (l *latency) quantile(q float64) time.Duration {
	left := int64(q * float64(l.n))
	for i, n := range l.classes {
		if left -= n; left < 0 {
			return min(top(i), l.longest)
		}
	}
	return l.longest
}
