package acme

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"github.com/millrace-io/millrace/internal/testkit/leaktest"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestParseHosts(t *testing.T) {
	for list, want := range map[string]string{
		"live.example.org":                "live.example.org",
		" A.example.org., b.example.org,": "a.example.org b.example.org",
		"bücher.example":                  "xn--bcher-kva.example",
	} {
		if got, err := ParseHosts(list); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q, %v, want %q", list, got, err, want)
		}
	}
	for _, list := range []string{"", ",", "localhost", "*.example.org", "my_host.example.org",
		"10.0.0.5", "[::1]", "https://live.example.org", "live.example.org:443", "a b.example.org"} {
		if got, err := ParseHosts(list); err == nil {
			t.Errorf("%q: %q, want an error", list, got)
		}
	}
}

// A memory is a cache that fails a few times.
type memory struct {
	failures int
	values   map[string][]byte
}

func (m *memory) Get(_ context.Context, name string) ([]byte, error) {
	if m.failures > 0 {
		m.failures--
		return nil, errors.New("the cache does not answer")
	}
	if text, ok := m.values[name]; ok {
		return text, nil
	}
	return nil, autocert.ErrCacheMiss
}

func (*memory) Put(context.Context, string, []byte) error { return nil }
func (*memory) Delete(context.Context, string) error      { return nil }

// certificate returns a certificate and its key as autocert stores them.
func certificate(t *testing.T, host string, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// A certificate in the cache is used without the authority, also if the cache fails at first.
func TestCachedCertificate(t *testing.T) {
	const host = "live.example.org"
	synctest.Test(t, func(t *testing.T) {
		var log nettest.LogBook
		c := New(Config{Hosts: []string{host}, URL: "http://127.0.0.1:1/",
			Cache: &memory{failures: 3, values: map[string][]byte{
				host: certificate(t, host, time.Now().Add(60*24*time.Hour))}},
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		hello := &tls.ClientHelloInfo{ServerName: "Live.Example.org."}
		if _, err := c.TLS().GetCertificate(hello); err != errNoCertificate {
			t.Errorf("before Run: %v, want an error", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go c.Run(ctx)
		begun := time.Now()
		c.AwaitCached(ctx)
		if took := time.Since(begun); took != 3*cachePause {
			t.Errorf("the certificate was read after %v, want %v", took, 3*cachePause)
		}
		if got, err := c.TLS().GetCertificate(hello); err != nil || got.Leaf.DNSNames[0] != host {
			t.Errorf("the certificate is %v, %v", got, err)
		}
		if n := strings.Count(log.String(), "cannot be read"); n != 3 {
			t.Errorf("the log has %d errors, want 3:\n%s", n, &log)
		}
		stop()
		synctest.Wait()
	})
}

// A client that asks for the answer to an authority does not learn why the cache fails.
func TestAnswerHidesErrors(t *testing.T) {
	c := cache{Config{Cache: &memory{failures: 3}}}
	for name, want := range map[string]error{"live.example.org+token": autocert.ErrCacheMiss,
		"x+http-01": autocert.ErrCacheMiss} {
		if _, err := c.Get(t.Context(), name); err != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if _, err := c.Get(t.Context(), "acme_account+key"); err == autocert.ErrCacheMiss {
		t.Error("without its key in the cache, a new account would be registered")
	}
}

func TestOverdue(t *testing.T) {
	text := certificate(t, "live.example.org", time.Now().Add(30*24*time.Hour))
	_, rest := pem.Decode(bytes.TrimSpace(text))
	block, _ := pem.Decode(rest)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for days, want := range map[int]bool{0: false, 20: false, 23: true, 31: true} {
		if got := isOverdue(leaf, time.Now().AddDate(0, 0, days)); got != want {
			t.Errorf("after %d of 30 days: %v, want %v", days, got, want)
		}
	}
}
