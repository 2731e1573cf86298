//go:build linux || darwin

package server

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// unsentBound returns how many unsent bytes the kernel may hold for a connection.
func unsentBound(t *testing.T, raw syscall.RawConn) (n int) {
	t.Helper()
	var err error
	if e := raw.Control(func(fd uintptr) { n, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, notSentLowat) }); e != nil {
		err = e
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The kernel is told how much it may hold for a viewer: otherwise some megabytes hide that it has stopped.
func TestUnsentBytesAreBounded(t *testing.T) {
	const bound = 12345
	f := serve(t, func(c *Config) { c.Unsent = bound })
	sc := newScript(1, 5, 100)
	p := f.publish("cam")
	p.send(sc.whole())
	w := f.watch("/live/cam", 0)
	same(t, "the stream", w.read(len(sc.whole())), sc.whole())
	seen := 0
	eventually(t, "the viewer to be driven by its pump", func() bool {
		st := f.registry.find("cam")
		st.live.mu.Lock()
		defer st.live.mu.Unlock()
		for _, pump := range st.live.pumps {
			pump.driving.Lock()
			for _, v := range pump.healthy {
				seen++
				if n := unsentBound(t, v.sock.raw); n != bound {
					t.Errorf("the kernel may hold %d bytes, want %d", n, bound)
				}
			}
			pump.driving.Unlock()
		}
		return seen > 0
	})
	p.end()
	w.rest()
}
