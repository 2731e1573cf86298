//go:build !linux

package relay

import (
	"errors"
	"math"
	"net"
	"time"
)

// leastBeat keeps publishers from being read by the clock on this system.
const leastBeat = time.Duration(math.MaxInt64)

// A timedReader cannot be had on this system.
type timedReader struct{ net.Conn }

func newTimedReader(conn net.Conn, _ *Publisher) *timedReader {
	return &timedReader{conn}
}

func (t *timedReader) conn() (net.Conn, error) { return nil, errors.ErrUnsupported }
