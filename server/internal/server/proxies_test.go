package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/conn/proxy"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
	"github.com/pires/go-proxyproto"
)

// proxyHeader returns a header of the PROXY protocol for a client.
func proxyHeader(t testing.TB, version byte, client string) []byte {
	t.Helper()
	from := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(client))
	to := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.255:80"))
	p, err := proxyproto.HeaderProxyFromAddrs(version, from, to).Format()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// dialFrom connects to addr as a proxy does for a client.
func dialFrom(t testing.TB, addr, client string) net.Conn {
	t.Helper()
	conn := dial(t, addr, 0)
	if _, err := conn.Write(proxyHeader(t, 2, client)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// clientFrom returns an HTTP client that connects like a proxy for the given client.
func clientFrom(t testing.TB, addr, client string) *http.Client {
	tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return dialFrom(t, addr, client), nil
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func trustLoopback(c *Config) { c.TrustedProxies = "127.0.0.1" }

// After a PROXY header the connection is still used as a TCP connection: viewers are served with
// writev, files with sendfile, and logs have the client's address.
func TestPROXYKeepsTheConnection(t *testing.T) {
	cert, key := writeCertificate(t, t.TempDir(), 1)
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file"), random(1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f := serveRTMP(t, func(c *Config) {
		trustLoopback(c)
		c.Root = root
	})
	publisher := livetest.NewRTMP(t, dialFrom(t, f.rtmp, "192.0.2.9:9"))
	publisher.Connect("live")
	if s := publisher.Publish("cam"); s.Level != "status" {
		t.Fatalf("publishing was refused: %+v", s)
	}
	if err := publisher.SendTags(sampleTags()...); err != nil {
		t.Fatal(err)
	}
	f.published("cam", 1)
	f.Logged("publisher", "192.0.2.9:9")
	for i, version := range []byte{1, 2} {
		conn := dial(t, f.Addr, 0)
		client := fmt.Sprintf("192.0.2.1:%d", 1000+i)
		_, _ = conn.Write(proxyHeader(t, version, client))
		w := f.AskOn(conn, "/live/cam.flv")
		w.Begin()
		w.Next(1000)
		f.Logged("viewer started", "viewer="+client, "path=writev")
	}
	viewer := livetest.NewRTMP(t, dialFrom(t, f.rtmp, "[2001:db8::1]:1"))
	viewer.Connect("live")
	viewer.Play("cam")
	viewer.NextTag()
	f.Logged("viewer started", "viewer=[2001:db8::1]:1", "path=writev")
	if n := f.metric(`millrace_viewers{path="writev"}`); n != "3" {
		t.Errorf("%s viewers by writev, want 3", n)
	}
	res, err := clientFrom(t, f.Addr, "192.0.2.2:2").Get("http://127.0.0.1/files/file")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || len(got) != 1<<20 {
		t.Errorf("%d bytes, %v, want 1 MiB", len(got), err)
	}
	if sent := f.report("/files/file"); sent.Copied > 4096 || sent.Sendfile < 1<<20-4096 {
		t.Errorf("%+v, want sendfile for all but the head", sent)
	}
	f.Logged("file served", "client=192.0.2.2:2")

	sealed := serveRTMP(t, func(c *Config) {
		trustLoopback(c)
		c.TLSCert, c.TLSKey = cert, key
	})
	conn := tls.Client(dialFrom(t, sealed.Addr, "192.0.2.3:3"),
		&tls.Config{InsecureSkipVerify: true})
	_, _ = io.WriteString(conn,
		"POST /elsewhere HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n")
	sealed.Logged("publisher refused", "path=/elsewhere", "client=192.0.2.3:3")
	client := livetest.NewRTMP(t, tls.Client(dialFrom(t, sealed.rtmps, "192.0.2.4:4"),
		&tls.Config{InsecureSkipVerify: true}))
	client.Connect("other")
	client.Play("cam")
	if s := client.AwaitStatus(); s.Level != "error" {
		t.Errorf("%+v, want an error", s)
	}
	sealed.Logged("viewer refused", "client=192.0.2.4:4")
}

// A PROXY header from an untrusted peer, or an invalid one, ends the connection, with a log line
// and a metric.
func TestPROXYIsRefused(t *testing.T) {
	f := serveRTMP(t, nil)
	for _, addr := range []string{f.Addr, f.rtmp} {
		conn := dialFrom(t, addr, "192.0.2.1:1")
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Errorf("%s: it is answered", addr)
		}
	}
	f.Logged("reader refused", "trusted-proxies", "client=127.0.0.1")
	f.Logged("RTMP client refused", "trusted-proxies", "client=127.0.0.1")
	for _, client := range []string{"reader", "unknown"} {
		metric := fmt.Sprintf("millrace_refused_total{client=%q,reason=%q}", client, "proxy")
		eventually(t, metric, func() bool { return f.metric(metric) == "1" })
	}
}

// A proxy that sends nothing does not block others, and its connection ends.
func TestMissingPROXYHeaderTimesOut(t *testing.T) {
	t.Parallel() // waits most of the time
	for _, timeout := range []time.Duration{testTimeout, 200 * time.Millisecond} {
		f := serveRTMP(t, func(c *Config) {
			trustLoopback(c)
			c.HeaderTimeout = timeout
		})
		var silent []*net.TCPConn
		for _, addr := range []string{f.Addr, f.rtmp} {
			for _, begun := range []string{"", "PROXY TCP4 192.0.2.1"} {
				conn := dial(t, addr, 0)
				_, _ = io.WriteString(conn, begun)
				silent = append(silent, conn)
			}
		}
		if timeout == testTimeout { // which the others have as well
			if res := f.Get("/healthz"); res.Status != 200 {
				t.Errorf("/healthz: %d, want 200", res.Status)
			}
		}
		for _, conn := range silent {
			if timeout == testTimeout {
				_ = conn.SetLinger(0)
				_ = conn.Close()
			} else if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("%s sends an answer, want the end of the connection", conn.RemoteAddr())
			}
		}
	}
}

// X-Forwarded-For is only used from trusted proxies.
func TestForwardedFor(t *testing.T) {
	for trusted, want := range map[string]string{"": "127.0.0.1:",
		"127.0.0.1,10.0.0.0/8": "192.0.2.1:0"} {
		f := serve(t, func(c *Config) { c.TrustedProxies, c.ReadToken = trusted, "r" })
		f.Request("POST", "/elsewhere?token=r", "",
			"X-Forwarded-For: 192.0.2.9, 192.0.2.1, 10.0.0.1")
		f.Logged("publisher refused", "path=/elsewhere", "client="+want)
		res := f.Request("GET", "/?token=r", "", "X-Forwarded-Proto: https", "Accept: text/html")
		if secure := strings.Contains(res.Header.Get("Set-Cookie"),
			"Secure"); secure != (trusted != "") {
			t.Errorf("trusted %q: the cookie is %q", trusted, res.Header.Get("Set-Cookie"))
		}
	}
}

// refusedFor reports an error unless a response is the refusal of an address that names the flag.
func refusedFor(t *testing.T, res livetest.Response, flag string) {
	t.Helper()
	if res.Status != 429 || res.Header.Get("Retry-After") == "" ||
		!strings.Contains(res.Body, flag) {
		t.Errorf("%d %.200q, Retry-After %q; want 429 that names %s", res.Status, res.Body,
			res.Header.Get("Retry-After"), flag)
	}
}

// An address may have a limited number of connections. Other addresses are not affected. A viewer
// counts until it ends.
func TestConnectionsOfAnAddress(t *testing.T) {
	const flag = "--max-address-connections"
	f := serveRTMP(t, func(c *Config) {
		trustLoopback(c)
		c.MaxAddressConnections = 1
	})
	f.publisher("cam")
	f.published("cam", 1)
	conn := dialFrom(t, f.Addr, "192.0.2.1:1")
	w := f.AskOn(conn, "/live/cam.flv")
	w.Begin()
	request := func(client *http.Client, path string) livetest.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return livetest.Do(client, req)
	}
	refusedFor(t, request(clientFrom(t, f.Addr, "192.0.2.1:2"), "/"), flag)
	refusedFor(t, f.Request("GET", "/", "", "X-Forwarded-For: 192.0.2.1"), flag)
	if res := f.Request("GET", "/healthz", "", "X-Forwarded-For: 192.0.2.1"); res.Status != 200 {
		t.Errorf("/healthz: %d, want 200", res.Status)
	}
	if res := request(clientFrom(t, f.Addr, "192.0.2.2:2"), "/"); res.Status != 200 {
		t.Errorf("another address: %d %s", res.Status, res.Body)
	}
	play := dialFrom(t, f.rtmp, "192.0.2.1:3") // closed before the handshake
	_, _ = play.Write(append([]byte{3}, make([]byte, 1536)...))
	if n, err := play.Read(make([]byte, 1)); n > 0 || err != io.EOF &&
		!errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("RTMP: %d bytes, %v", n, err)
	}
	f.Logged("RTMP client refused", flag, "client=192.0.2.1:3")
	if n := f.metric(`millrace_refused_total{client="reader",reason="address"}`); n != "2" {
		t.Errorf("%s refused, want 2", n)
	}
	_ = conn.Close()
	eventually(t, "the place to be free", func() bool {
		return f.Request("GET", "/", "", "X-Forwarded-For: 192.0.2.1").Status == 200
	})

	// Behind an HTTP proxy a viewer counts, too.
	head := "GET /live/cam.flv HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
	eventually(t, "a viewer", func() bool { // the previous request may not have ended yet
		conn = dial(t, f.Addr, 0)
		_, _ = io.WriteString(conn, head)
		line, err := bufio.NewReader(conn).ReadString('\n')
		return err == nil && strings.Contains(line, "200")
	})
	refusedFor(t, f.Request("GET", "/", "", "X-Forwarded-For: 192.0.2.1"), flag)
	cfg := f.cfg
	cfg.MaxAddressConnections = 2
	f.Reload(&cfg)
	if res := f.Request("GET", "/", "", "X-Forwarded-For: 192.0.2.1"); res.Status != 200 {
		t.Errorf("after the reload: %d %s", res.Status, res.Body)
	}
	f.Reload(&f.cfg)
	refusedFor(t, f.Request("GET", "/", "", "X-Forwarded-For: 192.0.2.1"), flag)
	_ = conn.Close()
	eventually(t, "the place to be free again", func() bool {
		return f.Request("GET", "/", "", "X-Forwarded-For: 192.0.2.1").Status == 200
	})
}

// If an HTTP/2 connection was accepted when its address had too many, the client gives it up and
// gets the next one. The response can be read by the sites that --cors names.
func TestFullAddressIsRefusedOverHTTP2(t *testing.T) {
	f := serve(t, func(c *Config) {
		trustLoopback(c)
		c.MaxAddressConnections, c.CORS, c.ViewerWait = 1, "https://a.example", 0
	})
	first := dialFrom(t, f.Addr, "192.0.2.1:1")
	_, _ = io.WriteString(first, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	if _, err := first.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	client := clientFrom(t, f.Addr, "192.0.2.1:2")
	tr := client.Transport.(*http.Transport)
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetUnencryptedHTTP2(true)
	get := func() livetest.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1/live/cam", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "https://b.example")
		return livetest.Do(client, req)
	}
	res := get()
	refusedFor(t, res, "--max-address-connections")
	if allowed := res.Header.Get("Access-Control-Allow-Origin"); allowed != "" {
		t.Errorf("allowed for %q", allowed)
	}
	_ = first.Close()
	eventually(t, "another connection", func() bool { return get().Status != 429 })
}

// Behind a proxy, no client sees the addresses of publishers, although only this machine can reach
// the listener.
func TestAddressesOfPublishersBehindProxies(t *testing.T) {
	f := serveRTMP(t, trustLoopback)
	f.publisher("cam")
	f.published("cam", 1)
	if res := f.Get("/api/streams"); !strings.Contains(res.Body, `"publisher":"127.0.0.1:`) {
		t.Errorf("on this machine: %s", res.Body)
	}
	res := f.Request("GET", "/api/streams", "", "X-Forwarded-For: 192.0.2.1")
	if res.Status != 200 || strings.Contains(res.Body, `"publisher":"127.0.0.1:`) {
		t.Errorf("through a proxy: %d %s", res.Status, res.Body)
	}
}

// New viewers and bytes of an address are limited. Nodes and this machine are exempt.
func TestRatesOfAnAddress(t *testing.T) {
	f := serve(t, func(c *Config) {
		trustLoopback(c)
		c.MaxAddressViewers, c.MaxAddressBytes = 1, 1<<30
		c.ViewerWait = time.Millisecond
	})
	from := func(client, path string) livetest.Response {
		return f.Request("GET", path, "", "X-Forwarded-For: "+client)
	}
	eventually(t, "a refusal", func() bool {
		res := from("192.0.2.1", "/live/cam.flv")
		if res.Status == 404 {
			return false
		}
		refusedFor(t, res, "--max-address-viewers")
		return true
	})
	eventually(t, "a refusal of HLS", func() bool {
		res := from("192.0.2.2", "/live/cam/index.m3u8")
		if res.Status == 404 {
			return false
		}
		refusedFor(t, res, "--max-address-viewers")
		return true
	})
	for range 20 {
		if res := f.Get("/live/cam.flv"); res.Status != 404 {
			t.Fatalf("this machine: %d %s", res.Status, res.Body)
		}
	}

	p := f.Publisher("live")
	p.Send(demo.Sample)
	f.published("live", 1)
	conn := dialFrom(t, f.Addr, "192.0.2.3:1")
	w := f.AskOn(conn, "/live/live.flv")
	w.Begin()
	w.Next(1000)
	account, err := f.clients.addresses.Acquire(netip.MustParseAddr("192.0.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	defer account.Release()
	account.Add(1 << 40)
	for _, path := range []string{"/live/live.flv", "/live/live/media.m3u8", "/files/x",
		"/blobs/x"} {
		refusedFor(t, from("192.0.2.3", path), "--max-address-bytes")
	}
	if res := from("192.0.2.3", "/"); res.Status != 200 {
		t.Errorf("the page: %d", res.Status)
	}
}

// Bytes that viewers, players and downloads receive are counted for their address.
func TestBytesOfAnAddressAreCounted(t *testing.T) {
	f, _ := serveFiles(t, map[string]int{"file": 1 << 20}, func(c *Config) {
		trustLoopback(c)
		c.MaxAddressBytes = minAddressBytes
	})
	p, part, _ := f.publishSample(t)
	defer p.Cut()
	f.clients.addresses.SetLimits(address.Limits{Bytes: 1}) // even the first bytes exceed the limit
	for i, path := range []string{"/live/cam.flv", "/live/cam/" + part, "/live/cam/media.m3u8",
		"/files/file"} {
		client := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)})
		account, err := f.clients.addresses.Acquire(client)
		if err != nil {
			t.Fatal(err)
		}
		conn := dialFrom(t, f.Addr, client.String()+":1")
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path)
		eventually(t, path+" to be counted", func() bool { return account.Check() != nil })
		_ = conn.Close()
		account.Release()
	}
}

// A download waits if its address has used up its rate.
func TestDownloadsOfAnAddressWait(t *testing.T) {
	t.Parallel()
	f, content := serveFiles(t, map[string]int{"file": 640 << 10}, func(c *Config) {
		trustLoopback(c)
		c.MaxAddressBytes = 128 << 10
	})
	began := time.Now()
	res := f.Request("GET", "/files/file", "", "X-Forwarded-For: 192.0.2.1")
	same(t, "the file", []byte(res.Body), content["file"])
	second := f.Request("GET", "/files/file", "", "X-Forwarded-For: 192.0.2.1")
	same(t, "the file", []byte(second.Body), content["file"])
	// 1280 KiB, the last part of which may be sent when at most five seconds are owed.
	if took, least := time.Since(began), 2*time.Second; took < least {
		t.Errorf("it took %v, want at least %v", took, least)
	}
}

// If there is no room for another connection, a connection of the address with the most connections
// is closed, not the oldest connection.
func TestLargestAddressGivesWay(t *testing.T) {
	const flood = 2 * address.FairShare
	f := serve(t, func(c *Config) {
		trustLoopback(c)
		c.MaxConnections = flood + 1
	})
	idle := func(from string) net.Conn {
		conn := dialFrom(t, f.Addr, from)
		_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		return conn
	}
	waiting := func(n int) {
		t.Helper()
		eventually(t, "connections that wait for requests", func() bool {
			f.connections.mu.Lock()
			defer f.connections.mu.Unlock()
			for p := range f.connections.all {
				if p.IdleSince.Load() == 0 {
					return false
				}
			}
			return len(f.connections.all) == n
		})
	}
	first := idle("192.0.2.1:1")
	waiting(1)
	for i := range flood {
		idle(fmt.Sprintf("192.0.2.2:%d", i+1))
	}
	waiting(flood + 1)
	for i := range flood {
		idle(fmt.Sprintf("192.0.2.2:%d", i+flood+1))
		waiting(flood + 1)
	}
	_ = first.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := first.Read(make([]byte, 1)); !os.IsTimeout(err) {
		t.Errorf("the connection of the other address: %v", err)
	}
}

// When memory is short, the connections that have been idle longest are closed, over any protocol.
// Connections with requests stay.
func TestIdleConnectionsAreShed(t *testing.T) {
	for _, secure := range []bool{false, true} {
		cfg := Defaults()
		each := int64(plainBytes)
		if secure {
			cfg.TLSCert, cfg.TLSKey = writeCertificate(t, t.TempDir(), 1)
			each = tlsBytes
		}
		f := serveOn(t, cfg, &logBook{}, Listeners{Main: listen(t)})
		open := func(protocol, request string) net.Conn {
			var conn net.Conn = dial(t, f.Addr, 0)
			if secure {
				over := tls.Client(conn, &tls.Config{InsecureSkipVerify: true,
					NextProtos: []string{protocol}})
				if err := over.Handshake(); err != nil {
					t.Fatal(err)
				}
				conn = over
			}
			_, _ = io.WriteString(conn, request)
			return conn
		}
		const get = " HTTP/1.1\r\nHost: localhost\r\n\r\n"
		h2 := http2Preface + string(http2RawFrame{kind: frameSettings}.bytes())
		var idle []net.Conn
		for i, request := range []string{"", "GET /healthz" + get, h2, "GET /healthz" + get, h2,
			""} {
			protocol := "http/1.1"
			if request == h2 {
				protocol = "h2"
			}
			idle = append(idle, open(protocol, request))
			eventually(t, "a connection", func() bool {
				f.connections.mu.Lock()
				defer f.connections.mu.Unlock()
				return len(f.connections.all) == i+1
			})
		}
		busy := open("http/1.1", "GET /live/none.flv"+get) // waits for the stream
		port := func(a net.Addr) int { return a.(*net.TCPAddr).Port }
		index := func(p *proxy.Conn) int { // of p's client in idle; -1 for busy
			return slices.IndexFunc(idle, func(c net.Conn) bool {
				return port(c.LocalAddr()) == port(p.TCPConn.RemoteAddr())
			})
		}
		var order []*proxy.Conn
		eventually(t, "all but busy to wait for requests", func() bool {
			f.connections.mu.Lock()
			defer f.connections.mu.Unlock()
			order = order[:0]
			for p := range f.connections.all {
				if waits := p.IdleSince.Load() != 0; waits != (index(p) >= 0) {
					return false // such as busy, before its request has been read
				} else if waits {
					order = append(order, p)
				}
			}
			return len(order) == len(idle) && len(f.connections.all) == len(idle)+1
		})
		if n := f.connections.free(1 << 20); n != 0 {
			t.Errorf("%d bytes freed of connections that have just come", n)
		}
		long := time.Now().Add(-time.Hour).UnixNano()
		for _, p := range order { // as if they had connected one after the other
			p.IdleSince.Store(long + int64(index(p)))
		}
		for i, conn := range idle {
			if n := f.connections.free(each); n != each {
				t.Errorf("%d bytes freed, want %d", n, each)
			}
			_ = conn.SetReadDeadline(time.Now().Add(testTimeout))
			if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
				t.Fatalf("connection %d stays", i)
			}
		}
		if n := f.connections.free(1 << 20); n != 0 {
			t.Errorf("%d bytes freed of a connection that has a request", n)
		}
		if n := f.metric("millrace_connections_shed_total"); !secure &&
			n != strconv.Itoa(len(idle)) {
			t.Errorf("%s connections shed", n)
		}
		_ = busy.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := busy.Read(make([]byte, 1)); !os.IsTimeout(err) {
			t.Errorf("the connection that has a request: %v", err)
		}
		_ = busy.Close()
	}
}

// While the log blocks, connections are accepted, and those above the limit are closed.
func TestTheLogBlocks(t *testing.T) {
	var log *nettest.BlockingLog
	f := serve(t, func(c *Config) {
		c.MaxConnections = 1
		log = nettest.NewBlockingLog(c.Log.Handler())
		c.Log = slog.New(log)
	})
	conn := dial(t, f.Addr, 0)
	// The request waits for the stream.
	_, _ = io.WriteString(conn, "GET /live/absent.flv HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	eventually(t, "it to have a request", func() bool {
		f.connections.mu.Lock()
		defer f.connections.mu.Unlock()
		for c := range f.connections.all {
			return c.IdleSince.Load() == 0
		}
		return false
	})
	goOn := log.Block()
	defer goOn()
	for range 3 {
		if n, err := dial(t, f.Addr, 0).Read(make([]byte, 1)); n > 0 || err != io.EOF &&
			!errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("%d bytes, %v, want the end of the connection", n, err)
		}
	}
	eventually(t, "a line that waits", func() bool { return log.Holds("reader refused") })
}

// A connection without a request is closed for a new one. A connection with a request is not.
func TestMaxConnections(t *testing.T) {
	f := serve(t, func(c *Config) { c.MaxConnections = 2 })
	ask := func(path string) (net.Conn, *bufio.Reader) {
		conn := dial(t, f.Addr, 0)
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path)
		return conn, bufio.NewReader(conn)
	}
	served := func(r *bufio.Reader) {
		t.Helper()
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	idle := func() (n int) {
		f.connections.mu.Lock()
		defer f.connections.mu.Unlock()
		for c := range f.connections.all {
			if c.IdleSince.Load() != 0 {
				n++
			}
		}
		return n
	}
	first, r := ask("/healthz")
	served(r)
	eventually(t, "it to be idle", func() bool { return idle() == 1 })
	_, _ = ask("/live/absent.flv") // waits for the stream
	eventually(t, "both", func() bool {
		f.connections.mu.Lock()
		defer f.connections.mu.Unlock()
		return len(f.connections.all) == 2
	})
	eventually(t, "the second one to have a request", func() bool { return idle() == 1 })
	third, r3 := ask("/healthz")
	served(r3)
	if n, err := first.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("the idle connection is still there")
	}
	// Otherwise it might become idle only later.
	eventually(t, "the third one to be idle", func() bool { return idle() == 1 })
	_, _ = io.WriteString(third, "GET /live/absent.mp4 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	eventually(t, "all to have requests", func() bool { return idle() == 0 })
	last, _ := ask("/healthz")
	if n, err := last.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("a connection above the limit is served")
	}
	f.Logged("reader refused", "--max-connections")
	_ = third.Close()
	eventually(t, "a place", func() bool {
		res, err := http.Get(f.URL("/metrics"))
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		// The client may have dialed twice. Then a connection without a request was closed as well.
		return bytes.Contains(body, []byte("millrace_connections_evicted_total ")) &&
			!bytes.Contains(body, []byte("millrace_connections_evicted_total 0\n"))
	})
}

// Connections of all protocols are no longer counted when they end: viewers at once, others with
// their client.
func TestConnectionsAreForgotten(t *testing.T) {
	cert, key := writeCertificate(t, t.TempDir(), 1)
	for _, sealed := range []bool{false, true} {
		f := serve(t, func(c *Config) {
			if sealed {
				c.TLSCert, c.TLSKey = cert, key
			}
		})
		count := func(want int) {
			t.Helper()
			eventually(t, fmt.Sprintf("%d connections", want), func() bool {
				f.connections.mu.Lock()
				defer f.connections.mu.Unlock()
				return len(f.connections.all) == want
			})
		}
		scheme := "http"
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(!sealed)
		protocols.SetHTTP2(sealed)
		if sealed {
			scheme = "https"
		}
		tr := &http.Transport{Protocols: protocols,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		two := &http.Client{Transport: tr}
		one := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		for i, client := range []*http.Client{two, one} {
			res, err := client.Get(scheme + "://" + f.Addr + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if res.ProtoMajor != 2-i {
				t.Errorf("HTTP/%d, want HTTP/%d", res.ProtoMajor, 2-i)
			}
			count(i + 1)
		}
		one.CloseIdleConnections()
		count(1)
		two.CloseIdleConnections()
		count(0)
		_ = dial(t, f.Addr, 0).Close() // without sending anything
		count(0)
		if sealed {
			continue
		}
		p := f.Publisher("cam")
		p.Send(demo.Sample)
		f.published("cam", 1)
		w := f.Watcher("/live/cam.flv", 0)
		w.Next(100)
		http.DefaultClient.CloseIdleConnections()
		count(0)
		p.Cut()
	}
}

// dialLocal connects to addr from another address of this machine.
func dialLocal(t *testing.T, from, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Skipf("this system has no %s: %v", from, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Real proxies pass on the client's address in the ways that deploy/ configures: with a PROXY
// header of version 1 and 2 for RTMP, and with X-Forwarded-For for HTTP.
func TestProxiesTellTheClient(t *testing.T) {
	for _, name := range []string{"nginx", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serveRTMP(t, trustLoopback)
			f.publisher("cam")
			f.published("cam", 1)
			web, rtmp := nettest.FreeAddr(t), nettest.FreeAddr(t)
			startTellingBalancer(t, name, f, web, rtmp)

			viewer := livetest.NewRTMP(t, dialLocal(t, "127.0.0.7", rtmp))
			viewer.Connect("live")
			viewer.Play("cam")
			viewer.NextTag()
			f.Logged("viewer started", "viewer=127.0.0.7:", "form=rtmp", "path=writev")

			conn := dialLocal(t, "127.0.0.8", web)
			_, _ = io.WriteString(conn,
				"GET /live/cam.flv HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
			if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil ||
				!strings.Contains(line, "200") {
				t.Fatalf("%q, %v, want 200", line, err)
			}
			f.Logged("viewer started", "viewer=127.0.0.8:", "form=flv", "path=writev")
		})
	}
}

// startTellingBalancer starts a balancer as deploy/ configures it for nodes with --trusted-proxies,
// at two addresses.
func startTellingBalancer(t *testing.T, name string, f *rtmpFixture, web, rtmp string) {
	t.Helper()
	program := need.Program(t, name)
	dir := nettest.PlainDir(t)
	file, config, replace := balancerConfig(t, name)
	_, port, _ := net.SplitHostPort(f.Addr)
	conf := filepath.Join(dir, file)
	var run *exec.Cmd
	if name == "haproxy" {
		replace("# default-server send-proxy-v2", "default-server send-proxy-v2")
		for _, node := range []string{"node1", "node2", "node3"} {
			replace(node+":1935 port 8080", f.rtmp+" port "+port)
			replace(node+":8080", f.Addr)
		}
		replace("bind :8080", "bind "+web)
		replace("bind :1935", "bind "+rtmp)
		replace("maxconn 16384", "maxconn 256")
		run = exec.Command(program, "-db", "-f", conf)
	} else {
		replace("# proxy_protocol on;", "proxy_protocol on;")
		for _, node := range []string{"node1", "node2", "node3"} {
			replace(node+":1935", f.rtmp)
			replace(node+":8080", f.Addr)
		}
		replace("include /etc/nginx/modules-enabled/*.conf;",
			need.NginxModule(t, program, "stream"))
		replace("listen 8080", "listen "+web)
		replace("listen 1935", "listen "+rtmp)
		replace("worker_processes auto", "worker_processes 1")
		replace("worker_rlimit_nofile 65536;", "")
		replace("worker_connections 16384", "worker_connections 256")
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			replace("http {\n", "http {\n"+kind+"_temp_path "+dir+"/"+kind+";\n")
		}
		more := "daemon off; pid " + dir + "/pid; error_log stderr;"
		if os.Geteuid() == 0 {
			more += " user root;"
		}
		run = exec.Command(program, "-c", conf, "-p", dir, "-g", more)
	}
	if err := os.WriteFile(conf, []byte(*config), 0o600); err != nil {
		t.Fatal(err)
	}
	var said logBook
	run.Stderr = &said
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Signal(os.Interrupt)
		_ = run.Wait()
		if t.Failed() {
			t.Logf("%s says:\n%s", name, &said)
		}
	})
	for _, addr := range []string{web, rtmp} {
		eventually(t, name+" at "+addr, func() bool {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		})
	}
}
