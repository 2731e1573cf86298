package ingest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// A Session receives the stream that one connection publishes. The goroutine that reads from the
// connection calls its methods.
type Session interface {
	// Lifetime returns a context that ends when the connection must no longer be read.
	Lifetime() context.Context
	// Received is called after n bytes have been read.
	Received(n int)
	// Flush is called when all bytes that had arrived have been read. If bytes keep arriving
	// without a pause, Flush is also called in between. It must not block.
	Flush()
}

// Config configures the time between two reads of a connection, and how long a read may wait.
type Config struct {
	Beat    time.Duration // time between two reads; see [ByClock]
	Silence time.Duration // a read fails if no byte arrives for this long
}

// A Conn reads what a publisher sends on its connection, and sends answers.
type Conn interface {
	// Read returns io.ErrUnexpectedEOF if the connection ends, because a publisher should first
	// announce the end of its stream. If no byte arrives for Config.Silence, or if the session's
	// context ends, the error wraps os.ErrDeadlineExceeded.
	io.Reader
	// Write sends an answer of a few bytes.
	io.Writer
	// Release ends the use of the Conn, and returns the connection without deadlines. The caller
	// can send a final answer, and must close the connection. If Release returns an error, the
	// connection is already closed.
	Release() (net.Conn, error)
}

// errSilent returns the error for a publisher that has sent nothing for too long. The parameter
// limit is the allowed time.
func errSilent(limit time.Duration) error {
	return fmt.Errorf("nothing came for %v (--publish-timeout): %w", limit, os.ErrDeadlineExceeded)
}
