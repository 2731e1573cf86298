// Package childproc starts processes that end with this process, even if this process is killed.
package childproc
