//go:build !unix

package download

// fillDisk is never called: the system has no limit to how long a process's files may be, and so no test that starts one.
func fillDisk() int { return 2 }
