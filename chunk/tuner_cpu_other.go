//go:build !unix

package chunk

import "time"

// processorTime returns 0, because this system does not report it. The Tuner then never finds that
// the processors are busy.
func processorTime() time.Duration { return 0 }
