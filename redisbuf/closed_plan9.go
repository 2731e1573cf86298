package redisbuf

// closedByServer returns false, because the errors of Plan 9 do not give this reason.
func closedByServer(error) bool { return false }
