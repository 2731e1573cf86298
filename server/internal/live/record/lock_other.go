//go:build !unix

package record

import "github.com/millrace-io/millrace/server/internal/disk"

// flock does nothing, because this system has no flock.
func flock(disk.File) error { return nil }
