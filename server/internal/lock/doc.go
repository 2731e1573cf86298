// Package lock has the mutexes of the packages that log. They are those of package sync. With -tags
// invariants they also know which goroutine holds them, and a [Logger] ends the process when it is
// used by a goroutine that holds one: a log that blocks, such as a full pipe, must not block the
// goroutines that wait for the mutex.
package lock
