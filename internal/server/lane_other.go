//go:build !linux

package server

import "net"

// newLaned returns nil: on this system each publisher has a goroutine of its own.
func newLaned(net.Conn, *stream) driven { return nil }
