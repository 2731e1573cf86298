package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// A pebble is a running authority for tests.
type pebble struct {
	url     string
	ca      *testCA // signed the certificate of the authority's own server
	manage  string
	stop    func() // may be called more than once
	trusted *http.Client
}

// startPebble starts an authority that checks all hosts at the given ports of this machine.
func startPebble(t *testing.T, httpPort, tlsPort int) *pebble {
	t.Helper()
	program := need.Program(t, "pebble")
	names := need.Program(t, "pebble-challtestsrv")
	ca := newTestCA(t)
	cert, key := ca.issue(t)
	dir := t.TempDir()
	ports := nettest.FreePorts(t, 4)
	addr := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports+i) }
	text, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": addr(0), "managementListenAddress": addr(1), "certificate": cert,
		"privateKey": key, "httpPort": httpPort, "tlsPort": tlsPort}})
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "pebble.json")
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var log nettest.LogBook
	p := &pebble{url: "https://" + addr(0) + "/dir", ca: ca, manage: "https://" + addr(1),
		trusted: clientFor(t, ca.file)}
	var running []*exec.Cmd
	for _, args := range [][]string{
		{names, "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dns01", addr(2), "-http01", "",
			"-https01", "", "-tlsalpn01", "", "-management", addr(3)},
		{program, "-config", config, "-dnsserver", addr(2)},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
	}
	p.stop = func() {
		cancel()
		for _, cmd := range running {
			_ = cmd.Wait()
		}
		running = nil
	}
	t.Cleanup(func() {
		p.stop()
		p.trusted.CloseIdleConnections()
		if t.Failed() {
			t.Logf("the authority's log:\n%s", &log)
		}
	})
	eventually(t, "the authority and its names", func() bool {
		conn, err := net.Dial("tcp", addr(3))
		if err != nil {
			return false
		}
		_ = conn.Close()
		res, err := p.trusted.Get(p.url)
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil
	})
	return p
}

// clientFor returns a client that trusts the authority in a file.
func clientFor(t *testing.T, file string) *http.Client {
	t.Helper()
	trust, err := loadCA(file)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
}

// roots returns the root of the certificates that the authority signs.
func (p *pebble) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	res, err := p.trusted.Get(p.manage + "/roots/0")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("%v, no root in %q", err, text)
	}
	return roots
}

const acmeHost = "live.example.org"

// The server gets a certificate, with the authority checking the port for TLS or the one for HTTP,
// and has it after a restart without asking again.
func TestACME(t *testing.T) {
	for _, over := range []string{"TLS", "HTTP"} {
		t.Run(over, func(t *testing.T) {
			main, plain := listen(t), listen(t)
			httpPort, tlsPort := nettest.FreePort(t), main.Addr().(*net.TCPAddr).Port
			if over == "HTTP" {
				httpPort, tlsPort = plain.Addr().(*net.TCPAddr).Port, httpPort
			}
			authority := startPebble(t, httpPort, tlsPort)
			cfg := Defaults()
			cfg.ACME, cfg.ACMEURL, cfg.ACMECA = "other.example.org, "+acmeHost, authority.url,
				authority.ca.file
			cfg.ACMECache = t.TempDir()
			roots := authority.roots(t)
			start := func(l Listeners) *fixture {
				book := &logBook{}
				cfg.Log = testLog(book)
				f := serveOn(t, cfg, book, l)
				eventually(t, "the certificates", func() bool {
					return strings.Count(book.String(), "the certificate is there") == 2
				})
				return f
			}
			f := start(Listeners{Main: main, HTTP: plain})
			checkACME(t, f.Addr, roots)
			f.stop()
			authority.stop()
			f = start(Listeners{Main: listen(t)})
			checkACME(t, f.Addr, roots)
		})
	}
}

// checkACME checks the certificates that a server shows.
func checkACME(t *testing.T, addr string, roots *x509.CertPool) {
	t.Helper()
	for name, want := range map[string]string{acmeHost: acmeHost, "LIVE.example.org": acmeHost,
		"": "other.example.org", "unknown.example.org": ""} {
		conn, err := tls.Dial("tcp", addr, &tls.Config{ServerName: name, RootCAs: roots,
			NextProtos: []string{"h2", "http/1.1"}, InsecureSkipVerify: name == ""})
		if want == "" {
			if err == nil {
				_ = conn.Close()
				t.Errorf("%q is served, want an error", name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		state := conn.ConnectionState()
		if got := state.PeerCertificates[0].DNSNames; len(got) != 1 || got[0] != want ||
			state.NegotiatedProtocol != "h2" {
			t.Errorf("%q: the certificate is for %q, with %s, want %q", name, got,
				state.NegotiatedProtocol, want)
		}
		_ = conn.Close()
	}
}

// If the authority refuses, the log says so, and the server stops nevertheless.
func TestACMEFails(t *testing.T) {
	authority := startPebble(t, nettest.FreePort(t), nettest.FreePort(t)) // it checks other ports
	f := serve(t, func(c *Config) {
		c.ACME, c.ACMEURL, c.ACMECA = acmeHost, authority.url, authority.ca.file
		c.ACMECache = t.TempDir()
	})
	eventually(t, "an error", func() bool {
		return strings.Contains(f.Log.String(), "there is no certificate, so nobody can connect")
	})
}

// The listener for plain HTTP redirects to the main listener, and takes no data.
func TestHTTPRedirect(t *testing.T) {
	book := &logBook{}
	cfg := Defaults()
	cfg.Log = testLog(book)
	cfg.TLSCert, cfg.TLSKey = writeCertificate(t, t.TempDir(), 1)
	plain := listen(t)
	f := serveOn(t, cfg, book, Listeners{Main: listen(t), HTTP: plain})
	_, port, _ := net.SplitHostPort(f.Addr)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	for _, test := range []struct {
		method, host string
		status       int
		location     string
	}{
		{http.MethodGet, "", http.StatusPermanentRedirect,
			"https://127.0.0.1:" + port + "/live/a//b.flv?x=1"},
		{http.MethodHead, "live.example.org:80", http.StatusPermanentRedirect,
			"https://live.example.org:" + port + "/live/a//b.flv?x=1"},
		{http.MethodGet, "[::1]:80", http.StatusPermanentRedirect,
			"https://[::1]:" + port + "/live/a//b.flv?x=1"},
		{http.MethodPost, "", http.StatusForbidden, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method,
			"http://"+plain.Addr().String()+"/live/a//b.flv?x=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = test.host
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := res.Header.Get("Location"); res.StatusCode != test.status || got != test.location {
			t.Errorf("%s of %q: %d to %q, want %d to %q", test.method, test.host, res.StatusCode, got,
				test.status, test.location)
		}
	}
}

// Flags that do not fit together are refused with the flags' names.
func TestTLSFlags(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"--tls-cert and --tls-key": func(c *Config) { c.TLSCert = "x" },
		"--acme-cache":             func(c *Config) { c.ACME = acmeHost },
		"needs --cluster":          func(c *Config) { c.ACME, c.ACMECache = acmeHost, "redis" },
		"want one of them": func(c *Config) {
			c.ACME, c.ACMECache, c.TLSCert, c.TLSKey = acmeHost, "x", "x", "x"
		},
		"not a host name": func(c *Config) { c.ACME, c.ACMECache = "*.example.org", "x" },
		"--http-redirect": func(c *Config) { c.HTTPRedirect = ":80" },
		"--rtmps":         func(c *Config) { c.RTMPS = ":1936" },
	} {
		cfg := Defaults()
		change(&cfg)
		if err := cfg.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}
