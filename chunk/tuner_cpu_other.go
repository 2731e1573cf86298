//go:build !unix

package chunk

import "time"

// processorTime returns 0, because this system does not report the time. The number of workers then
// grows while work waits and growing pays, and never falls because processors are busy.
func processorTime() time.Duration { return 0 }
