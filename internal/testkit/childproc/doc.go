// Package childproc starts processes that die with this process, even if it is killed. It is for
// the servers of tests and of the soak test.
package childproc
