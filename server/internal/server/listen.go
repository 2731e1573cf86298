package server

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/ops"
)

// Listeners are the listeners of a Server. Main is required. The others may be nil.
type Listeners struct {
	Main  net.Listener
	Admin net.Listener
	RTMP  net.Listener
	RTMPS net.Listener // a listener without TLS; the Server adds TLS
	HTTP  net.Listener // redirects to Main, which has TLS
}

func (l *Listeners) close() {
	for _, ln := range []net.Listener{l.Main, l.Admin, l.RTMP, l.RTMPS, l.HTTP} {
		if ln != nil {
			_ = ln.Close()
		}
	}
}

// fields returns pointers to the fields of l, by listener name. The listeners that systemd or a
// previous process passes to this process must have these names.
func (l *Listeners) fields() map[string]*net.Listener {
	return map[string]*net.Listener{"main": &l.Main, "admin": &l.Admin, "rtmp": &l.RTMP,
		"rtmps": &l.RTMPS, "http": &l.HTTP}
}

// Named returns the listeners that are not nil, by name: main, admin, rtmp, rtmps or http. Run
// accepts inherited listeners under the same names.
func (l *Listeners) Named() map[string]net.Listener {
	named := make(map[string]net.Listener)
	for name, ln := range l.fields() {
		if *ln != nil {
			named[name] = *ln
		}
	}
	return named
}

// openListeners returns the inherited listeners, and opens the other listeners of cfg. It takes
// ownership of the inherited listeners. The caller must close the returned listeners, even after an
// error.
func openListeners(cfg *Config, inherited map[string]net.Listener) (l Listeners, err error) {
	fields := l.fields()
	for name, ln := range inherited {
		if fields[name] == nil {
			err = fmt.Errorf(
				"a listener is named %q, want main, admin, rtmp, rtmps or http: see FileDescriptorName= in systemd.socket(5)", name)
			_ = ln.Close()
			continue
		}
		*fields[name] = ln
	}
	for _, name := range []string{"rtmps", "http"} {
		if *fields[name] != nil && !cfg.hasTLS() {
			err = fmt.Errorf("the listener %s needs --tls-cert and --tls-key, or --acme", name)
		}
	}
	if err != nil {
		return l, err
	}
	for _, a := range []struct {
		flag, address string
		ln            *net.Listener
	}{
		{"listen", cfg.Listen, &l.Main}, {"admin", cfg.Admin, &l.Admin},
		{"rtmp", cfg.RTMP, &l.RTMP}, {"rtmps", cfg.RTMPS, &l.RTMPS},
		{"http-redirect", cfg.HTTPRedirect, &l.HTTP},
	} {
		if *a.ln != nil && cfg.Successor && !listensAt((*a.ln).Addr(), a.address) {
			cfg.Log.Warn("the address has changed, and only a restart takes it over",
				"flag", "--"+a.flag, "want", a.address, "listening", (*a.ln).Addr().String())
		}
		if *a.ln != nil || a.address == "" {
			continue
		}
		ln, err := net.Listen(network(a.address), a.address)
		if err != nil && a.flag == "rtmp" && cfg.RTMPOptional {
			cfg.Log.Warn("RTMP is off: its address cannot be used, and --rtmp chooses another one",
				"reason", err)
			continue
		}
		if err != nil {
			return l, listenError(a.flag, a.address, err)
		}
		*a.ln = ln
	}
	return l, nil
}

// network returns "tcp4" for an IPv4 address, so that 0.0.0.0 does not include IPv6.
func network(address string) string {
	host, _, _ := net.SplitHostPort(address)
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		return "tcp4"
	}
	return "tcp"
}

// listensAt reports whether addr, the address of a listener, matches the configured address.
func listensAt(addr net.Addr, configured string) bool {
	tcp, ok := addr.(*net.TCPAddr)
	host, port, err := net.SplitHostPort(configured)
	if !ok || err != nil {
		return !ok // a Unix socket from systemd, or no configured address
	}
	if number, err := net.LookupPort("tcp", port); err != nil || number != tcp.Port && number != 0 {
		return false
	}
	ip := net.ParseIP(host)
	switch {
	case host == "":
		return tcp.IP.IsUnspecified()
	case ip == nil: // a host name, which may resolve to addr
		return host != "localhost" || tcp.IP.IsLoopback()
	}
	return ip.Equal(tcp.IP)
}

// listenError returns an error that wraps err and advises the user what to do. The argument err is
// an error from net.Listen, and flag is the name of the flag that sets the address.
func listenError(flag, address string, err error) error {
	host, port, _ := net.SplitHostPort(address)
	n, notANumber := strconv.Atoi(port)
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf(
			"--%s: %w: this machine has no such address, and :%s is for all that it has", flag, err,
			port)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf(
			"--%s: %w: choose a port from 1024 on, or start the server with the socket units of deploy", flag, err)
	case !errors.Is(err, syscall.EADDRINUSE) || notANumber != nil:
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return fmt.Errorf("--%s: %w: choose another port, as in --%s %s, or port 0 for a free one",
		flag, err,
		flag, net.JoinHostPort(host, strconv.Itoa(n%math.MaxUint16+1)))
}

// rtmpPort returns the port of an RTMP listener, or the zero Port if there is none.
func rtmpPort(ln net.Listener) ops.Port {
	if ln != nil {
		if a, ok := ln.Addr().(*net.TCPAddr); ok {
			return ops.Port{Number: a.Port, Loopback: access.IsLoopback(a)}
		}
	}
	return ops.Port{}
}
