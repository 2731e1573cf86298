//go:build !unix

package chunk

import "time"

// processorTime knows nothing here: workers then grow while work waits and it pays, and never fall for processors' sake.
func processorTime() time.Duration { return 0 }
