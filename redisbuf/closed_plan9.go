package redisbuf

// closedByServer returns false, because Plan 9's errors do not say that the peer has closed a
// connection.
func closedByServer(error) bool { return false }
