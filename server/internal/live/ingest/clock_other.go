//go:build !linux

package ingest

import (
	"net"
	"time"
)

// ByClock reports whether connections are read by the clock: not on this system.
func ByClock(time.Duration) bool { return false }

func newClockConn(net.Conn, Session, Config) Conn { return nil }
