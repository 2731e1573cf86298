package live

import "time"

// start is the zero point of the times that now() returns.
var start = time.Now()

// now returns the time since the package was initialized, in nanoseconds of the monotonic clock.
func now() int64 { return int64(time.Since(start)) }
