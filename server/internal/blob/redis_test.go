package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/server/internal/testkit/redisclient"
	"github.com/redis/go-redis/v9"
)

// keysOf returns the Redis keys of a store without expiry, excluding those of replaced values.
func keysOf(t *testing.T, s *Redis) []string {
	t.Helper()
	var mu sync.Mutex
	var keys []string
	list := func(ctx context.Context, c *redis.Client) error {
		it := c.Scan(ctx, 0, s.prefix+"*", 1000).Iterator()
		for it.Next(ctx) {
			if ttl := c.PTTL(ctx, it.Val()).Val(); ttl < 0 {
				mu.Lock()
				keys = append(keys, it.Val())
				mu.Unlock()
			}
		}
		return it.Err()
	}
	var err error
	switch c := s.rdb.(type) {
	case *redis.Client:
		err = list(t.Context(), c)
	case *redis.ClusterClient:
		err = c.ForEachMaster(t.Context(), list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Other programs can read a value by its hash, unchanged.
func TestRedisKeys(t *testing.T) {
	s := openServer(t, redistest.Shared(t).Endpoint(), t.Name()+":")
	for _, key := range []string{"k", "}x", "{a}b{c}", "a/b"} {
		tag := mustPut(t, s, key, []byte("value of "+key))
		hash := t.Name() + ":{/" + key + "}"
		name := s.rdb.HGet(t.Context(), hash, "value").Val()
		if got := s.rdb.Get(t.Context(), name).Val(); got != "value of "+key || tagOf(name) != tag {
			t.Errorf("%s names %s, which is %q", hash, name, got)
		}
		if redistest.Slot(hash) != redistest.Slot(name) ||
			redistest.Slot(name) != redistest.Slot(name+":new") {
			t.Errorf("%s and %s are in different slots", hash, name)
		}
	}
}

// A replaced value stays while it is read, and is deleted afterwards.
func TestReplacedValues(t *testing.T) {
	s := openServer(t, redistest.Shared(t).Endpoint(), t.Name()+":")
	old := described(1, 1000)
	mustPut(t, s, "k", old)
	v, err := s.lookup(t.Context(), s.hashKey("k"))
	if err != nil {
		t.Fatal(err)
	}
	c := s.content(t.Context(), v)
	defer c.Close()
	mustPut(t, s, "k", []byte("new"))
	left := func() time.Duration { return s.rdb.PTTL(t.Context(), v.key).Val() }
	if got := left(); got <= 0 || got > replacedFor {
		t.Errorf("it was replaced, and has %v left", got)
	}
	s.rdb.PExpire(t.Context(), v.key, replacedFor/2)
	c.Closer.(*versionReader).prolonged = time.Now().Add(-replacedFor)
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, old) {
		t.Errorf("%d bytes, %v, want the old value", len(got), err)
	}
	if got := left(); got <= replacedFor/2 {
		t.Errorf("it was read, and has %v left", got)
	}
	s.rdb.Del(t.Context(), v.key)
	_, _ = c.Seek(0, io.SeekStart)
	if _, err := c.Read(make([]byte, 10)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("it is gone: %v", err)
	}
	_ = c.Close()
	if _, err := c.Read(make([]byte, 10)); !errors.Is(err, context.Canceled) {
		t.Errorf("it is closed: %v", err)
	}
}

// Reading a value that was not replaced does not make it expire.
func TestReadsDoNotMakeValuesExpire(t *testing.T) {
	s := openServer(t, redistest.Shared(t).Endpoint(), t.Name()+":")
	mustPut(t, s, "k", []byte("value"))
	v, err := s.Open(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	r := v.Content.(contentReader).Closer.(*versionReader)
	r.prolonged = time.Time{}
	if got, err := io.ReadAll(v.Content); string(got) != "value" {
		t.Errorf("%q, %v, want value", got, err)
	}
	if left := s.rdb.PTTL(t.Context(), r.key).Val(); left != -1 {
		t.Errorf("it has %v left", left)
	}
}

// When a client disconnects during a response in several parts, reading ends.
func TestAnUnfinishedAnswerInParts(t *testing.T) {
	s := openServer(t, redistest.Shared(t).Endpoint(), t.Name()+":")
	mustPut(t, s, "k", described(1, 4<<20))
	for i := range 20 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Range", "bytes=0-1000000,2000000-3000000")
		v, err := s.Open(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Serve(&brokenResponse{header: make(http.Header), left: i * 50_000},
			r); err == nil {
			t.Errorf("a client that takes %d bytes: no error", i*50_000)
		}
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A brokenResponse accepts a limited number of bytes.
type brokenResponse struct {
	header http.Header
	left   int
}

func (w *brokenResponse) Header() http.Header { return w.header }
func (w *brokenResponse) WriteHeader(int)     {}

func (w *brokenResponse) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	if w.left -= n; n < len(p) {
		return n, io.ErrClosedPipe
	}
	return n, nil
}

// A value that Redis has evicted is not found. A key of another type is an error, and is not
// overwritten.
func TestKeysChangedByOtherPrograms(t *testing.T) {
	s := openServer(t, redistest.Shared(t).Endpoint(), t.Name()+":")
	w := serve(t, s)
	mustPut(t, s, "k", []byte("value"))
	s.rdb.Del(t.Context(), s.rdb.HGet(t.Context(), s.hashKey("k"), "value").Val())
	w.mustHave(t, "k", nil)
	if err := s.Delete(t.Context(), "k", nil); err != ErrNotFound {
		t.Errorf("deleting a key that is gone: %v, want ErrNotFound", err)
	}
	if _, created, err := put(t, s, "k", []byte("new"),
		func(tag string) bool { return tag == "" }); err != nil || !created {
		t.Errorf("created %v, %v, want a new value", created, err)
	}
	w.mustHave(t, "k", []byte("new"))

	s.rdb.Set(t.Context(), s.hashKey("string"), "of another program", 0)
	if _, _, err := put(t, s, "string", []byte("x"), nil); err == nil ||
		!strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("writing over a string: %v, want WRONGTYPE", err)
	}
	if got := s.rdb.Get(t.Context(), s.hashKey("string")).Val(); got != "of another program" {
		t.Errorf("it is %q", got)
	}
	if _, _, err := w.get(t.Context(), "string"); err == nil ||
		!strings.Contains(err.Error(), "500") {
		t.Errorf("reading a string: %v, want status 500", err)
	}
}

func TestErrorsOfRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Config("maxmemory 2mb", "maxmemory-policy noeviction"))
	opt := redisclient.Options(server.Endpoint())
	opt.DialerRetries = 1
	s := openRedis(t, redis.NewClient(opt), "")
	mustPut(t, s, "small", []byte("x"))
	var err error
	for i := 0; err == nil && i < 10; i++ {
		_, _, err = put(t, s, strings.Repeat("k", i+1), described(1, 1<<20), nil)
	}
	if err != ErrFull {
		t.Errorf("%v, want ErrFull", err)
	}
	if err := s.Delete(t.Context(), "small", nil); err != nil {
		t.Errorf("a delete, which makes room: %v", err)
	}
	server.Kill()
	if _, _, err := put(t, s, "k", []byte("x"), nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Put: %v, want ErrUnavailable", err)
	}
	if err := s.Ping(t.Context()); err == nil {
		t.Error("it answers")
	}
	// Data on an old connection may have arrived when the client has not noticed yet that the
	// server has closed it.
	for s.rdb.PoolStats().TotalConns > 0 {
		_ = s.Ping(t.Context())
	}
	if err := s.Delete(t.Context(), "k", nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Delete: %v, want ErrUnavailable", err)
	}
	if _, err := OpenRedis(redis.NewClient(redisclient.Options(server.Endpoint())), "{x}",
		millrace.DefaultPool()); err == nil {
		t.Error("a prefix with braces")
	}
}

// A response that cannot be completed breaks off, and does not look complete.
func TestDownloadsThatBreakOff(t *testing.T) {
	server := redistest.Start(t)
	s := openServer(t, server.Endpoint(), "")
	proxy := server.Proxy(t)
	through := openServer(t, proxy.Endpoint(), "")
	mustPut(t, s, "k", described(1, 4<<20))
	w := serve(t, through)
	for range 4 {
		proxy.Set(redistest.CutReply(10 << 10).On("GETRANGE"))
		res, err := http.Get(w.URL + "/k")
		if err != nil {
			continue // it broke off before the header was sent
		}
		n, err := io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err == nil {
			t.Errorf("%d bytes and no error", n)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
