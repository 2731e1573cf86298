//go:build !linux

package relay

import (
	"context"
	"errors"
	"math"
	"net"
	"time"
)

// leastBeat keeps publishers from being read by the clock on this system.
const leastBeat = time.Duration(math.MaxInt64)

// A timedReader cannot be had on this system.
type timedReader struct{ net.Conn }

func newTimedReader(conn net.Conn, _, _ time.Duration, _ context.Context, _ func()) *timedReader {
	return &timedReader{conn}
}

func (t *timedReader) conn() (net.Conn, error) { return nil, errors.ErrUnsupported }
