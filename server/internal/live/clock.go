package live

import "time"

// start is the zero point of now.
var start = time.Now()

// now returns the monotonic time since start, in nanoseconds.
func now() int64 { return int64(time.Since(start)) }
