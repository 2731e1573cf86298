// Package lock has mutexes for packages that log. They wrap the mutexes of package sync. With -tags
// invariants they also know which goroutine holds them, and a [Logger] ends the process when a
// goroutine logs while it holds one: a log that blocks, such as a full pipe, must not block the
// goroutines that wait for the mutex.
package lock
