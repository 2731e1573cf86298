package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/pires/go-proxyproto"
)

func TestParseTrusted(t *testing.T) {
	for list, has := range map[string]string{
		"": "", " ": "", "10.0.0.0/8, 192.0.2.1": "10.1.2.3 192.0.2.1 ::ffff:10.0.0.1",
		"2001:db8::/32,::1":   "2001:db8:1::1 ::1",
		"::ffff:10.0.0.0/104": "10.2.3.4", "10.1.2.3/8": "10.9.9.9",
	} {
		trusted, err := ParseTrusted(list)
		if err != nil {
			t.Errorf("ParseTrusted(%q): %v", list, err)
		}
		for a := range strings.FieldsSeq(has) {
			if !trusted.Has(netip.MustParseAddr(a)) {
				t.Errorf("%q has no %s", list, a)
			}
		}
		for _, a := range []string{"11.0.0.1", "192.0.2.2", "2001:db9::1", "::2", "0.0.0.0"} {
			if trusted.Has(netip.MustParseAddr(a)) {
				t.Errorf("%q includes %s", list, a)
			}
		}
	}
	for _, list := range []string{",", "10.0.0.0/8,", "example.org", "10.0.0.0/33", "10.0.0",
		"::ffff:10.0.0.0/8", "10.0.0.1:80"} {
		if _, err := ParseTrusted(list); err == nil {
			t.Errorf("%q is taken", list)
		}
	}
}

func TestClient(t *testing.T) {
	trusted, err := ParseTrusted("10.0.0.0/8,127.0.0.1,::1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		lines []string
		want  string
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"192.0.2.1"}, "192.0.2.1:0"},
		{[]string{"192.0.2.9, 192.0.2.1"}, "192.0.2.1:0"},
		{[]string{"192.0.2.9, 192.0.2.1, 10.0.0.1,127.0.0.1"}, "192.0.2.1:0"},
		{[]string{"192.0.2.9", "192.0.2.1", "10.0.0.1"}, "192.0.2.1:0"},
		{[]string{"192.0.2.1:443"}, "192.0.2.1:443"},
		{[]string{"[2001:db8::1]:443"}, "[2001:db8::1]:443"},
		{[]string{"[2001:db8::1]"}, "[2001:db8::1]:0"},
		{[]string{"2001:db8::1"}, "[2001:db8::1]:0"},
		{[]string{"::ffff:192.0.2.1"}, "192.0.2.1:0"},
		{[]string{"192.0.2.9, unknown, 10.0.0.1"}, "10.0.0.1:0"},
		{[]string{"192.0.2.9, , 10.0.0.1"}, "10.0.0.1:0"},
		{[]string{"192.0.2.1, unknown"}, ""},
		{[]string{"10.0.0.1, 10.0.0.2"}, "10.0.0.1:0"},
		{[]string{"192.0.2.1,"}, ""},
		{[]string{"fe80::1%eth0"}, "[fe80::1]:0"},
		{[]string{strings.Repeat("192.0.2.1,", 1000) + "10.0.0.1"}, "192.0.2.1:0"},
	} {
		got := ""
		if c := trusted.Client(http.Header{"X-Forwarded-For": tt.lines}); c.IsValid() {
			got = c.String()
		}
		if got != tt.want {
			t.Errorf("%.60q: %q, want %q", tt.lines, got, tt.want)
		}
	}
}

// header returns a header that the library writes.
func header(t testing.TB, version byte, source, dest string) []byte {
	t.Helper()
	from, to := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(source)),
		net.TCPAddrFromAddrPort(netip.MustParseAddrPort(dest))
	p, err := proxyproto.HeaderProxyFromAddrs(version, from, to).Format()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func headers(t testing.TB) map[string][]byte {
	local := append(bytes.Clone(proxyproto.SIGV2), 0x20, 0, 0, 0)
	long := append(bytes.Clone(proxyproto.SIGV2), 0x21, 0x11, 0xff, 0xff)
	short := append(bytes.Clone(proxyproto.SIGV2), 0x21, 0x11, 0, 2, 1, 1)
	return map[string][]byte{
		"v1":       header(t, 1, "192.0.2.1:1000", "192.0.2.2:80"),
		"v1 IPv6":  header(t, 1, "[2001:db8::1]:1000", "[2001:db8::2]:80"),
		"v2":       header(t, 2, "192.0.2.1:1000", "192.0.2.2:80"),
		"v2 IPv6":  header(t, 2, "[2001:db8::1]:1000", "[2001:db8::2]:80"),
		"nginx":    []byte("PROXY TCP6 192.0.2.1 ::1 1000 80\r\n"),
		"unknown":  []byte("PROXY UNKNOWN\r\n"),
		"local":    local,
		"too long": long, "too short": short,
		"endless":  []byte("PROXY " + strings.Repeat("x", 200)),
		"bad line": []byte("PROXY TCP4 x y 1 2\r\n"),
		"no CR":    []byte("PROXY TCP4 192.0.2.1 192.0.2.2 1000 80\n"),
	}
}

// Each header is read exactly to its end, in one piece or byte by byte. Headers of untrusted peers
// are refused.
func TestHeaders(t *testing.T) {
	want := map[string]string{
		"v1": "192.0.2.1:1000", "v2": "192.0.2.1:1000", "nginx": "192.0.2.1:1000",
		"v1 IPv6": "[2001:db8::1]:1000", "v2 IPv6": "[2001:db8::1]:1000", "unknown": "peer",
		"local": "peer",
	}
	for name, head := range headers(t) {
		for _, split := range []bool{false, true} {
			for _, trusts := range []string{"127.0.0.1", ""} {
				refused := make(chan error, 1)
				client, server := accept(t, trusts, func(_ net.Addr, why error) { refused <- why })
				go func() {
					if !split {
						_, _ = client.Write(append(bytes.Clone(head), "hello"...))
						return
					}
					for i := range head {
						_, _ = client.Write(head[i : i+1])
						time.Sleep(50 * time.Microsecond)
					}
					_, _ = client.Write([]byte("hello"))
				}()
				got, is := server.RemoteAddr().String(), want[name]
				if is == "peer" {
					is = client.LocalAddr().String()
				}
				p := make([]byte, 5)
				if is == "" || trusts == "" {
					if _, err := server.Read(p); err == nil || server.Err() == nil {
						t.Errorf("%s, trusted %q: it is served as %s", name, trusts, got)
					}
					select {
					case why := <-refused:
						if untrusted := errors.Is(why, errUntrusted); untrusted != (trusts == "") &&
							name != "too long" && name != "endless" {
							t.Errorf("%s, trusted %q: %v, want errUntrusted only without trust",
								name, trusts, why)
						}
					case <-time.After(nettest.Timeout):
						t.Errorf("%s, trusted %q: it is not refused", name, trusts)
					}
					continue
				}
				if _, err := io.ReadFull(server.TCPConn, p); err != nil || string(p) != "hello" ||
					got != is {
					t.Errorf("%s: %s and %q, want %s, %v", name, got, p, is, err)
				}
			}
		}
	}
}

// accept returns both ends of a connection.
func accept(t testing.TB, trusts string, refused func(net.Addr, error)) (client net.Conn,
	server *Conn) {
	t.Helper()
	trusted, err := ParseTrusted(trusts)
	if err != nil {
		t.Fatal(err)
	}
	var pointer atomic.Pointer[Trusted]
	pointer.Store(&trusted)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client = nettest.Dial(t, ln.Addr().String(), 0)
	c, err := Listen(ln, Config{
		Trusted: &pointer, Timeout: nettest.Timeout,
		Addresses: address.New(address.Limits{Connections: 1}), Refused: refused,
	}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return client, c.(*Conn)
}

// Data that only begins like a header is passed on unchanged, even from trusted peers.
func TestOtherProtocols(t *testing.T) {
	for _, text := range []string{"\x03", "\x16\x03\x01", "GET / HTTP/1.1\r\n",
		"PUT / HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"PROPFIND / HTTP/1.1\r\n", "PROXYING / HTTP/1.1\r\n", "\r\n\r\nGET / HTTP/1.1\r\n"} {
		client, server := accept(t, "127.0.0.1", nil)
		_, _ = client.Write([]byte(text))
		p := make([]byte, len(text))
		if _, err := io.ReadFull(server, p); err != nil || string(p) != text ||
			server.RemoteAddr().String() != client.LocalAddr().String() {
			t.Errorf("%q: read %q, %v, want the bytes and the address unchanged", text, p, err)
		}
	}
}

// A client that sends nothing, or disconnects, is not refused. Closing the server's end ends the
// wait.
func TestSilence(t *testing.T) {
	for name, end := range map[string]func(client net.Conn, server *Conn){
		"gone":   func(client net.Conn, _ *Conn) { _ = client.Close() },
		"closed": func(_ net.Conn, server *Conn) { _ = server.Close() },
		"timeout": func(_ net.Conn, server *Conn) {
			_ = server.SetReadDeadline(time.Unix(1, 0))
		},
	} {
		client, server := accept(t, "127.0.0.1",
			func(_ net.Addr, why error) { t.Errorf("%s: %v", name, why) })
		ended := make(chan error, 1)
		go func() { ended <- server.Err() }()
		for done := false; !done; { // the wait begins when it has set its own deadline
			end(client, server)
			select {
			case err := <-ended:
				if done = true; err == nil {
					t.Errorf("%s: it is served", name)
				}
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// However a connection ends, its account is released once.
func TestAccountsAreReleased(t *testing.T) {
	client, server := accept(t, "127.0.0.1", nil)
	_, _ = client.Write(append(header(t, 2, "192.0.2.1:1000", "192.0.2.2:80"), 'x'))
	table := server.cfg.Addresses
	if server.Account() == nil || server.Above() != nil || table.Stats().Held != 1 {
		t.Fatalf("%+v, want one held account", table.Stats())
	}
	if _, err := table.Acquire(netip.MustParseAddr("192.0.2.1")); err == nil {
		t.Error("its address has no connection")
	}
	other, _ := table.Acquire(netip.MustParseAddr("192.0.2.2"))
	server.Keep(other)
	_, _ = server.Close(), server.Close()
	if st := table.Stats(); st.Held != 0 {
		t.Errorf("%+v, want no held account", st)
	}
	late, _ := table.Acquire(netip.MustParseAddr("192.0.2.3"))
	server.Keep(late)
	if st := table.Stats(); st.Held != 0 {
		t.Errorf("%+v, want no held account", st)
	}
}

// The length of a header does not depend on how much of it has arrived. The header is parsed or
// refused without a panic.
func FuzzHeader(f *testing.F) {
	for _, head := range headers(f) {
		f.Add(head)
	}
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		n, more, err := headerLen(p)
		if n > maxV2 || more && (n > 0 || err != nil) || err != nil && n > 0 {
			t.Fatalf("n %d, more %v, error %v, want one of the three", n, more, err)
		}
		for i := range min(len(p), maxV1) {
			m, before, wrong := headerLen(p[:i])
			if before {
				continue
			}
			if m != n || more || (wrong == nil) != (err == nil) {
				t.Fatalf("%d bytes: %d, %v; %d bytes: %d, %v, %v", i, m, wrong, len(p), n, more,
					err)
			}
		}
		if n > 0 && n <= len(p) {
			if a, err := parseHeader(p[:n]); err == nil && a != nil && !AddrOf(a).IsValid() {
				t.Fatalf("the header's address %v is invalid", a)
			}
		}
	})
}

func FuzzClient(f *testing.F) {
	f.Add("192.0.2.1, 10.0.0.1")
	trusted := Trusted{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, line string) {
		got := trusted.Client(http.Header{"X-Forwarded-For": {line}})
		last := line[strings.LastIndexByte(line, ',')+1:]
		if a, ok := parseAddr(strings.TrimSpace(last)); ok != got.IsValid() || ok &&
			!trusted.Has(a.Addr()) && got != a {
			t.Fatalf("%q: the client is %v, want the last address that is not trusted", line, got)
		}
	})
}

// A client that is not behind a proxy counts for its address at once, even if it sends nothing.
func TestSilentClientsCount(t *testing.T) {
	own := ownAddress(t)
	ln, err := net.Listen("tcp", net.JoinHostPort(own, "0"))
	if err != nil {
		t.Skip(err)
	}
	defer ln.Close()
	var none atomic.Pointer[Trusted]
	none.Store(&Trusted{})
	table := address.New(address.Limits{Connections: 1})
	over := Listen(ln, Config{Trusted: &none, Timeout: nettest.Timeout, Addresses: table})
	var conns []*Conn
	for range 2 {
		nettest.Dial(t, ln.Addr().String(), 0)
		c, err := over.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c.(*Conn))
	}
	if !conns[0].Direct() || conns[0].Above() != nil || conns[0].Account() == nil {
		t.Errorf("the first one: above %v", conns[0].Above())
	}
	if conns[1].Above() == nil || conns[1].Trusted() || table.Stats().Held != 1 {
		t.Errorf("the second one is admitted: %+v", table.Stats())
	}
	_ = conns[0].Close()
	if st := table.Stats(); st.Held != 0 {
		t.Errorf("%+v, want no held account", st)
	}
}

// ownAddress returns an address of this machine that does not count as local.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Skip(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skip("the machine has loopback addresses alone")
	return ""
}

// A headBody is a Body that sends the head that the connection has kept, and then its own bytes.
type headBody struct {
	*strings.Reader
	head bytes.Buffer
}

func (b *headBody) Send(c *net.TCPConn) (int64, error) {
	if _, err := b.head.WriteTo(c); err != nil {
		return 0, err
	}
	return b.WriteTo(c)
}

// A response header is sent by the body if the handler wants to, and otherwise at once. Other bodies
// are sent as a TCP connection sends them.
func TestHeadIsSentWithTheBody(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Listen(ln, Config{Trusted: new(atomic.Pointer[Trusted]),
		Addresses: address.New(address.Limits{})})
	l.cfg.Trusted.Store(new(Trusted))
	defer l.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	c := accepted.(*Conn)
	b := &headBody{Reader: strings.NewReader("body 1\n")}
	c.KeepHead(&b.head)
	_, err1 := io.WriteString(c, "head 1\n")
	c.KeepHead(nil)
	_, err2 := io.WriteString(c, "before head 1\n")
	n, err3 := c.ReadFrom(b)
	_, err4 := io.WriteString(c, "head 2\n")
	m, err5 := c.ReadFrom(strings.NewReader("body 2\n"))
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil || n != 7 || m != 7 {
		t.Errorf("%d and %d bytes, %v, want 7 each", n, m, err)
	}
	_ = c.CloseWrite()
	got, err := io.ReadAll(client)
	if want := "before head 1\nhead 1\nbody 1\nhead 2\nbody 2\n"; string(got) != want ||
		err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
