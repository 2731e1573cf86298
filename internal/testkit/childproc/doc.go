// Package childproc starts processes that die with this one, even if it is killed: the servers of
// tests and of the soak.
package childproc
