// Package proxy finds the address of a client that connects through proxies.
//
// Half of the code is [Conn]. The methods that depend on the client's address wait for the header.
package proxy

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/millrace-io/millrace/server/internal/conn/address"
)

// Trusted lists the addresses of the trusted proxies. The zero value is empty.
type Trusted []netip.Prefix

// ParseTrusted parses a comma-separated list of addresses and networks.
func ParseTrusted(list string) (Trusted, error) {
	var t Trusted
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" && strings.TrimSpace(list) == "" {
			break
		}
		p, err := netip.ParsePrefix(text)
		if a, notAddr := netip.ParseAddr(text); notAddr == nil {
			p, err = netip.PrefixFrom(a.WithZone(""), a.BitLen()), nil
		}
		if err != nil || p.Addr().Is4In6() && p.Bits() < 96 {
			return nil, fmt.Errorf("%q is no address and no network such as 10.0.0.0/8", text)
		}
		if p.Addr().Is4In6() {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		t = append(t, p.Masked())
	}
	return t, nil
}

// Has reports whether a is the address of a trusted proxy.
func (t Trusted) Has(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	for _, p := range t {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Client returns the address of the client that has sent a request through trusted proxies. The
// argument h is the header of the request. Client returns the last address in X-Forwarded-For that
// is not a trusted proxy. A client can forge all earlier addresses.
//
// If an entry after that address is not an address, Client returns the address of the proxy that
// has added the invalid entry. If there is no address, the result is the zero AddrPort, which is
// invalid.
func (t Trusted) Client(h http.Header) (client netip.AddrPort) {
	lines := h["X-Forwarded-For"]
	for i := len(lines) - 1; i >= 0; i-- {
		for line, more := lines[i], true; more; {
			var text string
			if comma := strings.LastIndexByte(line, ','); comma >= 0 {
				line, text = line[:comma], line[comma+1:]
			} else {
				text, more = line, false
			}
			a, ok := parseAddr(strings.TrimSpace(text))
			if !ok {
				return client
			}
			if client = a; !t.Has(a.Addr()) {
				return client
			}
		}
	}
	return client
}

func parseAddr(text string) (netip.AddrPort, bool) {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["),
		"]")); err == nil {
		return netip.AddrPortFrom(a.Unmap().WithZone(""), 0), true
	}
	a, err := netip.ParseAddrPort(text)
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port()), err == nil
}

// KeyOf returns the address by which a client is counted. For an IPv6 address, the result is the
// /64 network; see [address.Key].
func KeyOf(a net.Addr) netip.Addr { return address.Key(AddrOf(a)) }

// AddrOf returns the IP address of a TCP address, or the zero value for other addresses.
func AddrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
