// Package lock provides mutexes for packages that log. By default they are the mutexes of package
// sync. With the build tag invariants they track which goroutine holds them, and a [Logger] aborts
// the process if a goroutine logs while it holds one. Such a goroutine is a bug, because the log
// may block, for example on a full pipe. Goroutines that wait for the mutex would then block as
// well.
package lock
