package server

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/redistest"
)

// onEachStore runs a test on servers that keep their blobs in a directory, in Redis, and in a Redis Cluster. start starts
// one, whose configuration change may change.
func onEachStore(t *testing.T, test func(t *testing.T, start func(change func(*Config)) *fixture)) {
	prefix := fmt.Sprintf("%s:%x:", t.Name(), rand.Uint64()) // the servers may have seen this test before
	for name, place := range map[string]func(*testing.T, *Config){
		"directory": func(t *testing.T, c *Config) { c.Blobs = t.TempDir() },
		"Redis": func(t *testing.T, c *Config) {
			c.Redis = "redis://" + redistest.Shared(t).Addr()
		},
		"cluster": func(t *testing.T, c *Config) {
			c.RedisCluster = strings.Join(redistest.SharedCluster(t).Addrs(), ",")
		},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(change func(*Config)) *fixture {
				return serve(t, func(c *Config) {
					place(t, c)
					c.RedisPrefix = prefix
					if change != nil {
						change(c)
					}
				})
			})
		})
	}
}

// random returns n bytes, the same for the same n.
func random(n int) []byte {
	p := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(p)
	return p
}

// put puts a blob, whose length is told.
func (f *fixture) put(key string, value []byte, header ...string) response {
	f.t.Helper()
	return f.request("PUT", "/blobs/"+key, string(value), header...)
}

// has fails the test unless the blob has that value.
func (f *fixture) has(key string, want []byte) {
	f.t.Helper()
	res := f.get("/blobs/" + key)
	if res.status != 200 {
		f.t.Fatalf("GET %s: %d %s", key, res.status, res.body)
	}
	if !bytes.Equal([]byte(res.body), want) {
		same(f.t, key, []byte(res.body), want)
	}
}
