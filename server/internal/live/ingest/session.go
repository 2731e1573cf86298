package ingest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// A Session is the publisher of a connection. Its methods are called by the goroutine that reads
// the connection.
type Session interface {
	// Lifetime returns a context that ends when nothing more is to be read.
	Lifetime() context.Context
	// Received reports n bytes that were read.
	Received(n int)
	// Flush is called when all bytes that had arrived have been read. While more bytes keep
	// arriving, it is called repeatedly in between. It must not block.
	Flush()
}

// Config configures when a connection is read.
type Config struct {
	Beat    time.Duration // time between two reads; see [ByClock]
	Silence time.Duration // a read fails after this long without a byte
}

// A Conn is the connection of a publisher while it is read.
type Conn interface {
	// Read returns io.ErrUnexpectedEOF when the connection ends, because a publisher announces the
	// end of its stream first. After Config.Silence without a byte, and when the session's context
	// has ended, the error wraps os.ErrDeadlineExceeded.
	io.Reader
	// Write sends an answer of a few bytes.
	io.Writer
	// Release ends the use of the Conn, and returns the connection, without deadlines, for a final
	// answer. The caller closes the connection. If Release returns an error, the connection is
	// closed.
	Release() (net.Conn, error)
}

// errSilent returns the error for a publisher that has sent nothing for the time limit.
func errSilent(limit time.Duration) error {
	return fmt.Errorf("nothing came for %v (--publish-timeout): %w", limit, os.ErrDeadlineExceeded)
}
