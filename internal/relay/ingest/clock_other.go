//go:build !linux

package ingest

import (
	"net"
	"time"
)

// ByClock reports whether connections are read by the clock: not on this system.
func ByClock(time.Duration) bool { return false }

// A clockConn does not exist on this system.
type clockConn struct{ idleConn }

func newClockConn(net.Conn, Session, Config) *clockConn { return nil }
