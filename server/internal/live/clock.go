package live

import "time"

// start is the origin of now.
var start = time.Now()

// now returns the monotonic time in nanoseconds.
func now() int64 { return int64(time.Since(start)) }
