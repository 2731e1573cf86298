//go:build !linux

package redisbuf

// quiet says that it is not known.
func (c *conn) quiet() (quiet, known bool) { return true, false }

// gone says that it is not known.
func (c *conn) gone() bool { return false }

// flowing says that it is not known.
func (c *conn) flowing(bool) (uint64, bool) { return 0, false }
