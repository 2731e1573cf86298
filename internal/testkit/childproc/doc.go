// Package childproc starts processes that end with this process, even if this process is killed. It
// is for the servers of tests and of the soak test.
package childproc
