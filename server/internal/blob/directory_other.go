//go:build !unix

package blob

import "os"

const shared, exclusive, unlocked, noWait = 0, 0, 0, 0

// flock does nothing, because this operating system does not have file locks of this kind.
func flock(*os.File, int) error { return nil }
