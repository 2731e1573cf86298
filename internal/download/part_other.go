//go:build !unix

package download

import "os"

const openFlags = 0

// lock does nothing: the system has no such lock.
func lock(*os.File) error { return nil }
