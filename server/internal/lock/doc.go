// Package lock provides mutexes for packages that log. By default they are the mutexes of package
// sync. With the build tag invariants they track which goroutine holds them, and a [Logger] aborts
// the process if a goroutine logs while it holds one: if the log blocks, for example on a full
// pipe, goroutines that wait for the mutex would block as well.
package lock
