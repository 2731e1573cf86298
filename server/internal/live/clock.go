package live

import "time"

var start = time.Now()

// nanotime returns the time since start, in ns of the monotonic clock.
func nanotime() int64 { return int64(time.Since(start)) }
