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

	"github.com/millrace-io/millrace/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// keysOf returns the keys of Redis that a store has, those of values that were replaced not included.
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

// Other programs find a value by its hash, as it is.
func TestRedisKeys(t *testing.T) {
	s := openRedis(t, redis.NewClient(redistest.Shared(t).Options()), t.Name()+":")
	for _, key := range []string{"k", "}x", "{a}b{c}", "a/b"} {
		tag := mustPut(t, s, key, []byte("value of "+key))
		hash := t.Name() + ":{/" + key + "}"
		name := s.rdb.HGet(t.Context(), hash, "value").Val()
		if got := s.rdb.Get(t.Context(), name).Val(); got != "value of "+key || tagOf(name) != tag {
			t.Errorf("%s names %s, which is %q", hash, name, got)
		}
		if redistest.Slot(hash) != redistest.Slot(name) || redistest.Slot(name) != redistest.Slot(name+":new") {
			t.Errorf("%s and %s are in different slots", hash, name)
		}
	}
}

// Downloads that find all direct ways taken go by windows, and are the same.
func TestWindows(t *testing.T) {
	s := openRedis(t, redis.NewClient(redistest.Shared(t).Options()), t.Name()+":")
	w := serve(t, s)
	value := described(1, 5<<20+3)
	for range straight {
		s.reading <- struct{}{}
		s.writing <- struct{}{}
	}
	mustPut(t, s, "k", value)
	if _, _, err := s.Put(t.Context(), "k", bytes.NewReader(value), int64(len(value)), Put{Limit: limit}); err != nil {
		t.Fatal(err)
	}
	w.mustHave(t, "k", value)
	if sent := s.Sent(); sent.Splice != 0 || sent.Copied != int64(len(value)) {
		t.Errorf("%+v", sent)
	}
}

// A value that was replaced stays for as long as somebody gets it, however slowly, and then goes.
func TestReplacedValues(t *testing.T) {
	t.Parallel() // it waits
	s := openRedis(t, redis.NewClient(redistest.Shared(t).Options()), t.Name()+":")
	s.keep = time.Second
	old := described(1, 2*window+1)
	mustPut(t, s, "k", old)
	v, err := s.lookup(t.Context(), s.name("k"))
	if err != nil {
		t.Fatal(err)
	}
	w := &slowResponse{ResponseRecorder: httptest.NewRecorder()}
	w.first = func() {
		mustPut(t, s, "k", []byte("new"))
		time.Sleep(2 * s.keep) // in one write: nothing is read meanwhile
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Range", "bytes=0-")
	if err := s.Serve(w, r, "k"); err != nil || !bytes.Equal(w.Body.Bytes(), old) {
		t.Errorf("%d bytes, %v", w.Body.Len(), err)
	}
	for deadline := time.Now().Add(10 * time.Second); s.rdb.Exists(t.Context(), v.key).Val() == 1; {
		if time.Now().After(deadline) {
			t.Fatal("it does not go")
		}
		time.Sleep(10 * time.Millisecond)
	}
	c := &content{store: s, ctx: t.Context(), version: v}
	if _, err := c.Read(make([]byte, 10)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("and then: %v", err)
	}
	if err := c.end(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the answer ends with %v", err)
	}
}

// A slowResponse does something in its first Write.
type slowResponse struct {
	*httptest.ResponseRecorder
	first func()
}

func (w *slowResponse) Write(p []byte) (int, error) {
	if w.first != nil {
		w.first()
		w.first = nil
	}
	return w.ResponseRecorder.Write(p)
}

// A client that leaves amid an answer in several parts leaves nobody who reads on.
func TestPartsThatNobodyTakes(t *testing.T) {
	s := openRedis(t, redis.NewClient(redistest.Shared(t).Options()), t.Name()+":")
	mustPut(t, s, "k", described(1, 4<<20))
	for i := range 20 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Range", "bytes=0-1000000,2000000-3000000")
		func() {
			defer func() {
				if got := recover(); got != nil && got != http.ErrAbortHandler {
					t.Errorf("%v", got)
				}
			}()
			_ = s.Serve(&brokenResponse{header: make(http.Header), left: i * 50_000}, r, "k")
		}()
	}
}

// A brokenResponse takes so many bytes.
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

// A value that Redis has evicted is none. What is no value at all is an error, and is not replaced.
func TestKeysThatOthersTouch(t *testing.T) {
	s := openRedis(t, redis.NewClient(redistest.Shared(t).Options()), t.Name()+":")
	w := serve(t, s)
	mustPut(t, s, "k", []byte("value"))
	s.rdb.Del(t.Context(), s.rdb.HGet(t.Context(), s.name("k"), "value").Val())
	w.mustHave(t, "k", nil)
	if err := s.Delete(t.Context(), "k", nil); err != ErrNotFound {
		t.Errorf("%v", err)
	}
	if _, created, err := put(t, s, "k", []byte("new"), func(tag string) bool { return tag == "" }); err != nil || !created {
		t.Errorf("%v, %v", created, err)
	}
	w.mustHave(t, "k", []byte("new"))

	s.rdb.Set(t.Context(), s.name("string"), "of somebody else", 0)
	if _, _, err := put(t, s, "string", []byte("x"), nil); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("%v", err)
	}
	if got := s.rdb.Get(t.Context(), s.name("string")).Val(); got != "of somebody else" {
		t.Errorf("it is %q", got)
	}
	if _, _, err := w.get(t.Context(), "string"); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("%v", err)
	}
}

func TestErrorsOfRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Config("maxmemory 2mb", "maxmemory-policy noeviction"))
	opt := server.Options()
	opt.DialerRetries = 1
	s := openRedis(t, redis.NewClient(opt), "")
	mustPut(t, s, "small", []byte("x"))
	var err error
	for i := 0; err == nil && i < 10; i++ {
		_, _, err = put(t, s, strings.Repeat("k", i+1), described(1, 1<<20), nil)
	}
	if err != ErrFull {
		t.Errorf("%v", err)
	}
	if err := s.Delete(t.Context(), "small", nil); err != nil {
		t.Errorf("a delete, which makes room: %v", err)
	}
	server.Kill()
	var away *UnavailableError
	if _, _, err := put(t, s, "k", []byte("x"), nil); !errors.As(err, &away) {
		t.Errorf("%v", err)
	}
	if err := s.Delete(t.Context(), "k", nil); !errors.As(err, &away) {
		t.Errorf("%v", err)
	}
	if err := s.Ping(t.Context()); err == nil {
		t.Error("it answers")
	}
	if _, err := OpenRedis(redis.NewClient(server.Options()), "{x}"); err == nil {
		t.Error("a prefix with braces")
	}
}

// An answer that cannot be finished breaks off, and is not taken for a whole one.
func TestAnswersThatBreakOff(t *testing.T) {
	server := redistest.Start(t)
	s := openRedis(t, redis.NewClient(server.Options()), "")
	proxy := server.Proxy(t)
	through := openRedis(t, redis.NewClient(proxy.Options(server)), "")
	mustPut(t, s, "k", described(1, 4<<20))
	w := serve(t, through)
	for _, direct := range []bool{true, false} {
		if !direct {
			for range straight {
				through.reading <- struct{}{}
			}
		}
		proxy.Set(redistest.CutReply(100 << 10).On("GETRANGE"))
		res, err := http.Get(w.URL + "/k")
		if err != nil {
			continue // it broke off before the header had left
		}
		n, err := io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err == nil {
			t.Errorf("direct %v: %d bytes and no error", direct, n)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
