package observe

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// connections reads the round trips and retransmissions of a load's connections from TCP_INFO.
//
// len(resent) ≤ MaxConns, as is len(spare).
type connections struct {
	list func() []syscall.Conn

	hasRetransmits, hasRTT bool

	resent, spare map[uint64]uint32 // by the socket's cookie: what it had sent again at the last reading
	started       bool              // there was a reading
	most          int               // connections that there were at once

	counts [bucketCount]uint64 // scratch

	// What ask learns of a socket; ask is what, so that a reading makes no closure.
	ask    func(fd uintptr)
	info   *unix.TCPInfo
	cookie uint64
	err    error
}

var errNoConns = errors.New("Options.Conns is nil")

func (c *connections) enableRetransmits() error {
	c.hasRetransmits = c.list != nil
	return c.open()
}

func (c *connections) enableRTT() error {
	c.hasRTT = c.list != nil
	return c.open()
}

func (c *connections) open() error {
	if c.list == nil {
		return errNoConns
	}
	if c.ask == nil {
		c.resent, c.spare = make(map[uint64]uint32), make(map[uint64]uint32)
		c.ask = func(fd uintptr) {
			c.info, c.err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if c.err == nil {
				c.cookie, c.err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
			}
		}
	}
	return nil
}

func (c *connections) read(s *KernelSample) {
	if c.ask == nil {
		return
	}
	clear(c.counts[:])
	clear(c.spare)
	conns := c.list()
	c.most = max(c.most, len(conns))
	for _, conn := range conns[:min(len(conns), MaxConns)] {
		if !c.look(conn) {
			continue // it is closed, or no TCP connection
		}
		if c.info.Rtt > 0 { // else nothing of it has come back yet
			c.counts[bucketOf(uint64(c.info.Rtt)*1000)]++
		}
		// A new connection has sent all again since the last reading, unless there was none.
		if before, known := c.resent[c.cookie]; c.hasRetransmits && (known || c.started) {
			s.Retransmits += int64(c.info.Total_retrans - before)
		}
		c.spare[c.cookie] = c.info.Total_retrans
	}
	c.resent, c.spare = c.spare, c.resent
	c.started = true
	if c.hasRTT {
		s.RTT = spreadOf(c.counts[:], bucketMiddle)
	}
}

func (c *connections) look(conn syscall.Conn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	c.err = nil
	return raw.Control(c.ask) == nil && c.err == nil
}

func (c *connections) notes() []string {
	if c.most <= MaxConns {
		return nil
	}
	return []string{fmt.Sprintf("TCP_INFO: of %d connections the first %d were looked at", c.most, MaxConns)}
}

func (c *connections) close() error { return nil }
