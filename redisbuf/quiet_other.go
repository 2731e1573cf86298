//go:build !linux

package redisbuf

// quiet says that it is not known.
func (c *conn) quiet() bool { return true }

// gone says that it is not known.
func (c *conn) gone() bool { return false }

// flowing says that it is not known.
func (c *conn) flowing(bool) (uint64, bool) { return 0, false }
