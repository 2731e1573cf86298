//go:build !unix

package chunk

import "time"

// processorTime returns 0, because the processor time is not known on this system. The Tuner
// therefore never finds that the processors are busy.
func processorTime() time.Duration { return 0 }
