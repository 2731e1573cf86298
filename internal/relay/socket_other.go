//go:build !linux

package relay

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace"
)

// A vector is not used on this system.
type vector struct{ calls, bytes int64 }

func (*vector) flush(*rendition) {}

var vectors = sync.Pool{New: func() any { return new(vector) }}

// A socket cannot be opened on this system. Each viewer is then written to by a goroutine of its own.
type socket struct{}

var errNoSocket = errors.New("relay: no writev on this system")

func (*socket) open(net.Conn) bool { return false }

func (*socket) write(*[]byte, *millrace.Chain, *vector, *atomic.Int64) (full bool, err error) {
	return false, errNoSocket
}
