package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/demo"
)

// writeCertificate writes a certificate for 127.0.0.1 and its key to files, and returns the names
// of the files.
func writeCertificate(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := testTemplate(serial)
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	return signCertificate(t, dir, template, private, template, private)
}

// testTemplate returns the template of an authority's certificate.
func testTemplate(serial int64) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(serial),
		Subject:  pkix.Name{CommonName: fmt.Sprint("test ", serial)},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
}

// A testCA is an authority that no system trusts.
type testCA struct {
	file     string
	template *x509.Certificate
	key      *ecdsa.PrivateKey
}

func newTestCA(t *testing.T) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &testCA{template: testTemplate(1), key: key}
	ca.file, _ = signCertificate(t, t.TempDir(), ca.template, key, ca.template, key)
	return ca
}

// issue writes a certificate for 127.0.0.1, like writeCertificate.
func (ca *testCA) issue(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	return signCertificate(t, t.TempDir(), template, private, ca.template, ca.key)
}

// signCertificate writes a certificate signed by an authority, and its key.
func signCertificate(
	t *testing.T, dir string, template *x509.Certificate, private *ecdsa.PrivateKey,
	parent *x509.Certificate, signer *ecdsa.PrivateKey,
) (cert, key string) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &private.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der},
		key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// serveTLS starts a server with a certificate, and returns a client that trusts it.
func serveTLS(t *testing.T, http2 bool, change func(*Config)) (*fixture, *http.Client, string) {
	t.Helper()
	cert, key := writeCertificate(t, t.TempDir(), 1)
	f := serve(t, func(c *Config) {
		c.TLSCert, c.TLSKey = cert, key
		if change != nil {
			change(c)
		}
	})
	return f, clientTrusting(t, cert, http2), "https://" + f.Addr
}

// clientTrusting returns a client that trusts the authority in a file.
func clientTrusting(t *testing.T, file string, http2 bool) *http.Client {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// Everything is served over TLS, in both versions of HTTP.
func TestTLS(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			file := bytes.Repeat([]byte("0123456789"), 100_000)
			if err := os.WriteFile(filepath.Join(root, "film"), file, 0o600); err != nil {
				t.Fatal(err)
			}
			f, client, at := serveTLS(t, http2,
				func(c *Config) { c.Root, c.Blobs = root, t.TempDir() })
			start, rest := demo.Sample[:10_000], demo.Sample[10_000:]
			body, send := io.Pipe()
			published := make(chan string, 1)
			go func() { published <- exchanged(client, "POST", at+"/live/cam", body) }()
			_, _ = send.Write(start)
			f.published("cam", 1)
			flv, err := client.Get(at + "/live/cam.flv")
			if err != nil {
				t.Fatal(err)
			}
			defer flv.Body.Close()
			if flv.Proto != name {
				t.Errorf("%s, want %s", flv.Proto, name)
			}
			_, _ = send.Write(rest)
			got := make([]byte, len(demo.Sample))
			if _, err := io.ReadFull(flv.Body, got); err != nil {
				t.Fatal(err)
			}
			same(t, "the stream", got, demo.Sample)
			mp4, err := client.Get(at + "/live/cam.mp4")
			if err != nil {
				t.Fatal(err)
			}
			defer mp4.Body.Close()
			if _, err := io.ReadFull(mp4.Body, got[:1000]); err != nil ||
				string(got[4:8]) != "ftyp" {
				t.Errorf("MP4: %v, %q, want ftyp", err, got[:12])
			}
			if got := exchanged(client, "GET", at+"/files/film", nil); got != "200 "+string(file) {
				t.Errorf("the file: %d bytes, %.40q", len(got), got)
			}
			if got := exchanged(client, "PUT", at+"/blobs/a",
				bytes.NewReader(file)); !strings.HasPrefix(got, "201") {
				t.Errorf("PUT: %s, want 201", got)
			}
			if got := exchanged(client, "GET", at+"/blobs/a", nil); got != "200 "+string(file) {
				t.Errorf("the blob: %d bytes, %.40q", len(got), got)
			}
			_ = send.Close()
			if got := <-published; !strings.HasPrefix(got, "200 ") {
				t.Errorf("publishing: %s, want 200", got)
			}
			if rest, err := io.ReadAll(flv.Body); len(rest) > 0 || err != nil {
				t.Errorf("%d bytes more, %v", len(rest), err)
			}
			f.Logged("listening", "page=https://"+f.Addr)
		})
	}
}

// exchanged sends a request, and returns the status and the body of the response.
func exchanged(client *http.Client, method, url string, body io.Reader) string {
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		return err.Error()
	}
	res, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return res.Status[:3] + " " + string(text)
}

// A browser that got the cookie of a --read-token over TLS only sends it over TLS.
func TestReadCookieOverTLS(t *testing.T) {
	_, client, at := serveTLS(t, true, func(c *Config) { c.ReadToken = readSecret })
	req, _ := http.NewRequest("GET", at+"/?token="+readSecret, nil)
	req.Header.Set("Accept", "text/html")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if set := res.Header.Get("Set-Cookie"); !strings.Contains(set, "Secure") {
		t.Errorf("the cookie is %q", set)
	}
}

// A renewed certificate is used at once. If a file is unreadable, the old certificate stays in use.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	book := &logBook{}
	log := nettest.NewBlockingLog(slog.NewTextHandler(book, nil))
	c, err := openCertificate(&Config{TLSCert: cert, TLSKey: key}, slog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	look := func(what string, after time.Duration, want int64) {
		t.Helper()
		now = now.Add(after)
		if got := c.get(now).Leaf.SerialNumber.Int64(); got != want {
			t.Errorf("%s: certificate %d, want %d", what, got, want)
		}
	}
	age := func(by time.Duration) { // the clock of the file system may be coarse
		for _, name := range []string{cert, key} {
			if err := os.Chtimes(name, now.Add(by), now.Add(by)); err != nil {
				t.Fatal(err)
			}
		}
	}
	look("as it was", certificateLook, 1)
	writeCertificate(t, dir, 2)
	age(time.Second)
	look("within a minute", certificateLook/2, 1)
	goOn := log.Block() // handshakes do not wait for the log
	look("a minute later", certificateLook/2, 2)
	goOn()
	if err := os.WriteFile(key, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	age(2 * time.Second)
	look("a key that is no key", certificateLook, 2)
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	look("no file", certificateLook, 2)
	writeCertificate(t, dir, 3)
	age(3 * time.Second)
	look("another", certificateLook, 3)
	eventually(t, "two warnings", func() bool {
		return strings.Count(book.String(), "level=WARN") == 2
	})
}

// The log warns once of a certificate that is expired or not valid yet, at the start and later.
func TestCertificateOutOfDate(t *testing.T) {
	const warning = "the certificate is out of date"
	cert, key := writeCertificate(t, t.TempDir(), 1)
	book := &logBook{}
	log := slog.New(slog.NewTextHandler(book, nil))
	c, err := openCertificate(&Config{TLSCert: cert, TLSKey: key}, log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(book.String(), warning) {
		t.Error("it is valid")
	}
	for i := range time.Duration(3) {
		c.get(time.Now().Add(2*time.Hour + i*certificateLook))
	}
	eventually(t, "a warning", func() bool { return strings.Contains(book.String(), warning) })
	for name, times := range map[string][2]time.Duration{"expired": {-2 * time.Hour, -time.Hour},
		"not yet": {time.Hour, 2 * time.Hour}} {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := testTemplate(2)
		template.NotBefore, template.NotAfter = time.Now().Add(times[0]), time.Now().Add(times[1])
		cert, key := signCertificate(t, t.TempDir(), template, private, template, private)
		before := strings.Count(book.String(), warning)
		if _, err := openCertificate(&Config{TLSCert: cert, TLSKey: key}, log); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(book.String(), warning); n != before+1 {
			t.Errorf("%s: %d warnings, want 1", name, n-before)
		}
	}
}

// A publisher that is refused in the middle of its body gets the reason, over TLS as without TLS.
func TestRefusalAmidTheBodyOverTLS(t *testing.T) {
	_, client, at := serveTLS(t, false, nil)
	bad := append(bytes.Clone(demo.Sample[:13]), bytes.Repeat([]byte{0xff}, 800<<10)...)
	for range 10 {
		if got := exchanged(client, "POST", at+"/live/x",
			bytes.NewReader(bad)); !strings.HasPrefix(got, "413 ") &&
			!strings.HasPrefix(got, "400 ") {
			t.Errorf("%.200s, want 413 or 400", got)
		}
	}
}

// A port scan logs no warning.
func TestFailedHandshakesAreNotWarnings(t *testing.T) {
	f, client, at := serveTLS(t, false, nil)
	c, err := net.Dial("tcp", f.Addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	f.Logged("level=DEBUG", "TLS handshake error")
	if got := exchanged(client, "GET", at+"/healthz", nil); !strings.HasPrefix(got, "200 ") ||
		strings.Contains(f.Log.String(), "level=WARN") {
		t.Errorf("/healthz: %s, want 200 and no warning in the log:\n%s", got, f.Log)
	}
}
