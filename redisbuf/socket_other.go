//go:build !linux

package redisbuf

import (
	"io"
	"os"
)

// On systems other than Linux, values pass through memory, and idle connections are not checked.

func (c *conn) canSplice() bool { return false }

func (c *conn) awaitBytes() (int, error) { return 0, nil }

func (c *conn) canSpliceFrom(io.Reader) bool { return false }

func (c *conn) spliceFrom(io.Reader, int64) (int64, error) { return 0, nil }

func (c *conn) sendFile(*os.File, int64) (int64, error) { return 0, nil }

func (c *conn) checkIdle() (usable, known bool) { return true, false }

func (c *conn) hungUp() bool { return false }
