package blob

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
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

// A value that was replaced stays for as long as somebody gets it, and then goes.
func TestReplacedValues(t *testing.T) {
	s := openRedis(t, redis.NewClient(redistest.Shared(t).Options()), t.Name()+":")
	s.keep = 400 * time.Millisecond
	old := described(1, 1<<20)
	mustPut(t, s, "k", old)
	v, err := s.lookup(t.Context(), s.name("k"))
	if err != nil {
		t.Fatal(err)
	}
	c := &content{store: s, ctx: t.Context(), version: v, prolonged: time.Now()}
	mustPut(t, s, "k", []byte("new"))
	var got bytes.Buffer
	for part := make([]byte, 128<<10); ; time.Sleep(100 * time.Millisecond) { // twice as long as it is kept, in all
		n, err := c.Read(part)
		got.Write(part[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got.Bytes(), old) {
		t.Errorf("%d bytes", got.Len())
	}
	for deadline := time.Now().Add(10 * time.Second); s.rdb.Exists(t.Context(), v.key).Val() == 1; {
		if time.Now().After(deadline) {
			t.Fatal("it does not go")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n, err := c.Seek(0, io.SeekStart); n != 0 || err != nil {
		t.Error(n, err)
	}
	if _, err := c.Read(make([]byte, 10)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("and then: %v", err)
	}
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

// A commit whose answer is lost is done once. Somebody else's value that has come meanwhile is not overwritten by the second
// try.
func TestCommitsAreDoneOnce(t *testing.T) {
	server := redistest.Shared(t)
	proxy := server.Proxy(t)
	s := openRedis(t, redis.NewClient(proxy.Options(server)), t.Name()+":")
	other := openRedis(t, redis.NewClient(server.Options()), t.Name()+":")
	w := serve(t, other)
	mustPut(t, s, "warm", []byte("the script is known"))
	proxy.Set(redistest.CutReply(0).On(commitScript.Hash()).Times(1))
	tag, _, err := put(t, s, "k", []byte("value"), func(tag string) bool { return tag == "" })
	if err != nil {
		t.Fatal(err)
	}
	got, now, err := w.get(t.Context(), "k")
	if err != nil || string(got) != "value" || now != tag {
		t.Errorf("%q, %s, %v; want %s", got, now, err, tag)
	}

	name := s.name("twice")
	pending, version := newVersion(name)+":new", newVersion(name)
	s.rdb.Set(t.Context(), pending, "first", pendingFor)
	keys := []string{name, pending, version}
	if created, err := s.commit(t.Context(), keys, 5, Put{}); err != nil || !created {
		t.Fatal(created, err)
	}
	mustPut(t, other, "twice", []byte("second"))
	if _, err := s.commit(t.Context(), keys, 5, Put{}); err != nil {
		t.Error(err)
	}
	w.mustHave(t, "twice", []byte("second"))
	s.rdb.Del(t.Context(), version)
	var away *UnavailableError
	if _, err := s.commit(t.Context(), keys, 5, Put{}); !errors.As(err, &away) {
		t.Errorf("a value that was lost: %v", err)
	}
}

func TestErrorsOfRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Config("maxmemory 2mb", "maxmemory-policy noeviction"))
	opt := server.Options()
	opt.DialerRetries = 1
	s := openRedis(t, redis.NewClient(opt), "")
	var err error
	for i := 0; err == nil && i < 10; i++ {
		_, _, err = put(t, s, strings.Repeat("k", i+1), described(1, 1<<20), nil)
	}
	if err != ErrFull {
		t.Errorf("%v", err)
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
		marker := "GETRANGE"
		if direct {
			marker = "$3\r\nGET\r\n"
		}
		proxy.Set(redistest.CutReply(100 << 10).On(marker))
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
