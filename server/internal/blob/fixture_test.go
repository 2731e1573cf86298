package blob

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/server/internal/testkit/redisclient"
	"github.com/redis/go-redis/v9"
)

// limit is the maximum length of values in tests.
const limit = 16 << 20

// onEachStore runs a test on a directory, on Redis, and on a Redis Cluster.
func onEachStore(t *testing.T, test func(t *testing.T, s Store)) {
	prefix := t.Name() + ":"
	t.Run("directory", func(t *testing.T) { test(t, openDirectory(t, t.TempDir())) })
	t.Run("Redis", func(t *testing.T) {
		test(t, openServer(t, redistest.Shared(t).Endpoint(), prefix))
	})
	t.Run("cluster", func(t *testing.T) {
		test(t, openRedis(
			t, redis.NewClusterClient(redisclient.ClusterOptions(redistest.SharedCluster(t))),
			prefix))
	})
}

func openDirectory(t *testing.T, name string) *directory {
	t.Helper()
	d, err := openStore(name, false, millrace.DefaultPool())
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, d)
}

// openStore is OpenDirectory, but returns a *directory.
func openStore(name string, successor bool, pool *millrace.Pool) (*directory, error) {
	s, err := OpenDirectory(name, successor, pool)
	d, _ := s.(*directory)
	return d, err
}

func openServer(t *testing.T, e redistest.Endpoint, prefix string) *Redis {
	t.Helper()
	return openRedis(t, redis.NewClient(redisclient.Options(e)), prefix)
}

func openRedis(t *testing.T, rdb redis.UniversalClient, prefix string) *Redis {
	t.Helper()
	s, err := OpenRedis(rdb, prefix, millrace.DefaultPool())
	if err != nil {
		t.Fatal(err)
	}
	return closing(t, s)
}

func closing[S Store](t *testing.T, s S) S {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// put puts a value.
func put(t *testing.T, s Store, key string, value []byte, only Condition) (tag string, created bool,
	err error) {
	t.Helper()
	size := int64(len(value))
	if rand.IntN(2) == 0 {
		size = unknownSize
	}
	return s.Put(t.Context(), key, bytes.NewReader(value), size, Put{Limit: limit, Only: only})
}

func mustPut(t *testing.T, s Store, key string, value []byte) string {
	t.Helper()
	tag, _, err := put(t, s, key, value, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// A web serves a store's values by key over a loopback connection.
type web struct{ *httptest.Server }

func serve(t *testing.T, s Store) web {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, err := s.Open(ContextOf(r), r.URL.Path[1:])
		if errors.Is(err, ErrNotFound) {
			http.Error(w, err.Error(), http.StatusNotFound)
		} else if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		} else {
			defer v.Close()
			if _, err := v.Serve(w, r); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
	}))
	t.Cleanup(srv.Close)
	return web{srv}
}

// get returns the value of a key, or nil if there is none, and its entity tag.
func (w web) get(ctx context.Context, key string, header ...string) (value []byte, tag string,
	err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL+"/"+key, nil)
	if err != nil {
		return nil, "", err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := w.Client().Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	value, err = io.ReadAll(res.Body)
	switch res.StatusCode {
	case http.StatusOK, http.StatusPartialContent:
		return value, res.Header.Get("Etag"), err
	case http.StatusNotFound:
		return nil, "", err
	}
	return nil, "", fmt.Errorf("status %d: %s", res.StatusCode, value)
}

func (w web) mustHave(t *testing.T, key string, want []byte) {
	t.Helper()
	got, _, err := w.get(t.Context(), key)
	if err != nil || (got == nil) != (want == nil) || !bytes.Equal(got, want) {
		t.Fatalf("%.40s: %d bytes, %v; want %d", key, len(got), err, len(want))
	}
}

// described returns a value of n bytes, at least 16, that identifies itself: its seed, its length,
// and bytes made from the seed.
func described(seed uint64, n int) []byte {
	p := make([]byte, n)
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	_, _ = rand.NewChaCha8(key).Read(p[16:])
	binary.LittleEndian.PutUint64(p, seed)
	binary.LittleEndian.PutUint64(p[8:], uint64(n))
	return p
}

// isWhole reports whether p was made by described.
func isWhole(p []byte) bool {
	return len(p) >= 16 && binary.LittleEndian.Uint64(p[8:]) == uint64(len(p)) &&
		bytes.Equal(p, described(binary.LittleEndian.Uint64(p), len(p)))
}
