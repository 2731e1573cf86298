package chunk

import "net/http"

// statusOfSyscall returns the HTTP status of the answer when a system call for opening a file
// fails. Plan 9 describes errors in words only.
func statusOfSyscall(error) int { return http.StatusNotFound }
