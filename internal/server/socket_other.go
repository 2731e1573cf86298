//go:build !linux && !darwin

package server

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace"
)

// A vector counts; there is nothing else to keep here.
type vector struct{ tally }

var vectors = sync.Pool{New: func() any { return new(vector) }}

// A socket cannot be opened on this system. Each viewer is then written to by a goroutine of its own.
type socket struct{}

var errNoSocket = errors.New("server: no writev on this system")

func (*socket) open(net.Conn) bool { return false }
func (*socket) boundUnsent(int)    {}

func (*socket) try(*[]byte, *millrace.Chain, *vector) (bool, error) { return false, errNoSocket }

func (*socket) wait(*[]byte, *millrace.Chain, *vector, *atomic.Int64) error { return errNoSocket }
