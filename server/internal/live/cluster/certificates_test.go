package cluster

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// All nodes with the cluster's token share the certificates, which are encrypted in Redis.
func TestCertificates(t *testing.T) {
	prefix := filepath.Base(filepath.Dir(t.TempDir())) + ":" // different for each run of the test
	cfg := RedisConfig{Address: "redis://" + redistest.Shared(t).Addr(), Prefix: prefix,
		Lease: 2 * time.Second}
	open := func(token string) *Certificates {
		c, err := OpenCertificates(cfg, token)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	one, two, other := open("a token"), open("a token"), open("another token")
	const name, text = "live.example.org", "a certificate and its key"
	if _, err := one.Get(t.Context(), name); err != autocert.ErrCacheMiss {
		t.Errorf("before Put: %v, want a cache miss", err)
	}
	if err := one.Put(t.Context(), name, []byte(text)); err != nil {
		t.Fatal(err)
	}
	if got, err := two.Get(t.Context(), name); err != nil || string(got) != text {
		t.Errorf("another node gets %q, %v, want %q", got, err, text)
	}
	if _, err := other.Get(t.Context(), name); err != autocert.ErrCacheMiss {
		t.Errorf("with another token: %v, want a cache miss", err)
	}
	stored, err := one.rdb.Get(t.Context(), one.key(name)).Bytes()
	if err != nil || bytes.Contains(stored, []byte("certificate")) {
		t.Errorf("Redis has %q, %v, want it encrypted", stored, err)
	}
	// A value cannot take the place of another one.
	if err := one.rdb.Set(t.Context(), one.key("other"), stored, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Get(t.Context(), "other"); err != autocert.ErrCacheMiss {
		t.Errorf("a moved value: %v, want a cache miss", err)
	}
	if err := two.Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Get(t.Context(), name); err != autocert.ErrCacheMiss {
		t.Errorf("after Delete: %v, want a cache miss", err)
	}
	_ = one.Delete(t.Context(), "other")
}
