package live

import "time"

var start = time.Now()

// nanotime returns the number of nanoseconds since start, by the monotonic clock.
func nanotime() int64 { return int64(time.Since(start)) }
