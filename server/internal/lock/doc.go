// Package lock provides mutexes for packages that log. By default they are the mutexes of package
// sync. With the build tag "invariants", the mutexes track which goroutine holds them. A [Logger]
// then aborts the process if a goroutine logs while it holds a mutex. Such a call to the log is a
// bug, because the log may block, for example on a full pipe, and every goroutine that waits for
// the mutex would block as well.
package lock
