//go:build !unix

package chunk

import "time"

// processorTime returns 0, because this system does not report the time. The Tuner therefore never
// sees busy processors. It adds workers while work waits and more workers pay, and never removes
// workers because processors are busy.
func processorTime() time.Duration { return 0 }
