package server

import (
	"net"
	"testing"
)

func TestThePageLinkCanBeOpened(t *testing.T) {
	for want, a := range map[string]net.Addr{
		"http://127.0.0.1:8080/": &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080},
		"http://127.0.0.1:9191/": &net.TCPAddr{IP: net.IPv6unspecified, Port: 9191},
		"http://127.0.0.1:9192/": &net.TCPAddr{IP: net.IPv4zero, Port: 9192},
		"http://127.0.0.1:9193/": &net.TCPAddr{Port: 9193},
		"http://[::1]:80/":       &net.TCPAddr{IP: net.IPv6loopback, Port: 80},
	} {
		if got := new(Server).pageLink(a); got != want {
			t.Errorf("%v: %s, want %s", a, got, want)
		}
	}
}
