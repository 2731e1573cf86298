package rtmp

import (
	"net"
	"testing"
)

// A connFrom is a connection from an address.
type connFrom struct {
	net.Conn
	addr   net.Addr
	closed bool
}

func from(address string, port int) *connFrom {
	return &connFrom{addr: &net.TCPAddr{IP: net.ParseIP(address), Port: port}}
}

func (c *connFrom) RemoteAddr() net.Addr { return c.addr }

func (c *connFrom) Close() error {
	c.closed = true
	return nil
}

// A flood of connections from one address, or one IPv6 network, that send nothing or stop in the
// middle, does not block clients from other addresses.
func TestHandshakesOfAFlood(t *testing.T) {
	for _, begins := range []bool{false, true} {
		for _, flood := range []string{"192.0.2.1", "2001:db8::1"} {
			var h Handshakes
			honest := []*connFrom{from("198.51.100.1", 1), from("198.51.100.1", 2),
				from("2001:db8:1::1", 3)}
			add := func(c *connFrom) {
				h.add(c)
				if begins {
					h.begin(c, c.addr)
				}
			}
			for _, c := range honest {
				add(c)
			}
			var last *connFrom
			for i := range 3 * MaxHandshakes {
				last = from(flood, i)
				if ip := last.addr.(*net.TCPAddr).IP; ip.To4() == nil {
					ip[15] = byte(i)
				}
				add(last)
			}
			for _, c := range honest {
				if c.closed || !h.remove(c) {
					t.Errorf("%s: the connection of %v has gone", flood, c.addr)
				}
			}
			if last.closed {
				t.Errorf("%s: the newest connection has gone, and not the oldest", flood)
			}
			if n := len(h.silent.list) + len(h.begun.list); n != MaxHandshakes-len(honest) {
				t.Errorf("%s: %d connections, want the places that honest clients leave", flood, n)
			}
		}
	}
}

// Silent connections do not block those that have begun, from the same address. If many addresses
// have few connections each, the oldest is closed.
func TestSilentHandshakesGiveWay(t *testing.T) {
	var h Handshakes
	begun, silent := from("192.0.2.1", 1), from("192.0.2.2", 2)
	h.add(begun)
	h.begin(begun, begun.addr)
	h.add(silent)
	for i := range MaxHandshakes {
		h.add(from("192.0.2.1", i))
	}
	if begun.closed || silent.closed {
		t.Error("a connection has gone that is none of the flood")
	}

	h = Handshakes{}
	pair := []*connFrom{from("192.0.2.1", 1), from("192.0.2.1", 2)}
	var all []*connFrom
	for i := range MaxHandshakes - len(pair) {
		all = append(all, from(net.IPv4(10, 0, byte(i>>8), byte(i)).String(), 1))
		h.add(all[i])
	}
	h.add(pair[0])
	h.add(pair[1])
	h.add(from("192.0.2.3", 1))
	if !all[0].closed || pair[0].closed || pair[1].closed {
		t.Error("two connections of an address count as a flood")
	}
	h.begin(all[0], all[0].addr) // it was closed
	if h.remove(all[0]) || len(h.begun.list) != 0 {
		t.Error("a connection that has gone comes back")
	}
	for _, c := range append(all[1:], pair...) {
		h.remove(c)
	}
	if n := len(h.silent.from); n != 1 {
		t.Errorf("%d addresses are left", n)
	}
}
