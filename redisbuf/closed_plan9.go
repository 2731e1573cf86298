package redisbuf

// closedByServer returns false: errors of Plan 9 do not say that the peer has closed a connection.
// Replies that the server sent before are then not read.
func closedByServer(error) bool { return false }
