package redisbuf

// closedByServer returns false, because Plan 9 errors do not say that the peer has closed a
// connection. Replies that the server sent before it closed the connection are therefore not read.
func closedByServer(error) bool { return false }
