package ingest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// A Session is the publisher of a connection. The goroutine that reads the connection calls its
// methods.
type Session interface {
	// Lifetime ends when nothing more is to be read.
	Lifetime() context.Context
	// Received notes n bytes that were read.
	Received(n int)
	// Flush is called when everything that had arrived has been read, and again and again while
	// more than that arrives. It must not block.
	Flush()
}

// Config says when a connection is read.
type Config struct {
	Beat    time.Duration // between two reads; see [ByClock]
	Silence time.Duration // a read fails after this long without a byte
}

// A Conn is the connection of a publisher while it is read.
type Conn interface {
	// Read returns io.ErrUnexpectedEOF when the connection ends, because a publisher says before
	// that where its stream ends. After Config.Silence without a byte, and when the session's
	// context has ended, the error wraps os.ErrDeadlineExceeded.
	io.Reader
	// Write sends an answer of a few bytes.
	io.Writer
	// Release ends the use of the Conn, and returns the connection for a final answer, without
	// deadlines. The caller closes it. After an error it is closed.
	Release() (net.Conn, error)
}

// errSilent ends a publisher that sends nothing for too long.
func errSilent(limit time.Duration) error {
	return fmt.Errorf("nothing came for %v (--publish-timeout): %w", limit, os.ErrDeadlineExceeded)
}
