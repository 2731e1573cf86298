package load

import "time"

// sample is the state of some processes at one moment.
type sample struct {
	known bool
	cpu   time.Duration // user and system, since they began
	rss   int64
	peak  int64
}
