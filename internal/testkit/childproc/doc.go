// Package childproc starts processes that end with this process, even if this process is killed.
// Tests and the soak test use it for their servers.
package childproc
