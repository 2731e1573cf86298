//go:build !unix

package chunk

import "time"

// processorTime knows nothing here: workers then grow while work waits and it pays, and never fall
// because processors are busy.
func processorTime() time.Duration { return 0 }
