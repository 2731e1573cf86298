package redisbuf

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestSetOptions(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	ttl := func(least, most time.Duration) {
		t.Helper()
		if d := rdb.PTTL(ctx, "o").Val(); d < least || d > most {
			t.Fatalf("it expires in %v, want %v to %v", d, least, most)
		}
	}
	const none = -1
	for _, s := range sets {
		must(t, s.call(ctx, c, "o", []byte("1"), Expire(time.Hour)))
		ttl(59*time.Minute, time.Hour)
		must(t, s.call(ctx, c, "o", []byte("2"), KeepTTL()))
		ttl(59*time.Minute, time.Hour)
		must(t, s.call(ctx, c, "o", []byte("3")))
		ttl(none, none)
		must(t, s.call(ctx, c, "o", []byte("4"), Expire(90*time.Second+time.Millisecond),
			IfPresent()))
		ttl(80*time.Second, 90*time.Second+time.Millisecond)
		if err := s.call(ctx, c, "o", []byte("7"), IfAbsent(),
			Expire(time.Minute)); err != redis.Nil {
			t.Fatalf("%s, IfAbsent: %v, want redis.Nil", s.name, err)
		}
		check(t, rdb, "o", []byte("4"))
		must(t, rdb.Del(ctx, "o").Err())
		if err := s.call(ctx, c, "o", []byte("8"), IfPresent()); err != redis.Nil {
			t.Fatalf("%s, IfPresent: %v, want redis.Nil", s.name, err)
		}
		must(t, s.call(ctx, c, "o", []byte("9"), IfAbsent()))
		check(t, rdb, "o", []byte("9"))

		for _, opts := range [][]SetOption{
			{KeepTTL(), Expire(time.Second)}, {IfAbsent(), IfPresent()}, {Expire(0)},
			{Expire(-time.Second)},
			{Expire(time.Millisecond - 1)},
		} {
			if err := s.call(ctx, c, "o", []byte("0"), opts...); err == nil || isServerError(err) {
				t.Fatalf("%s with %v: %v, want an error before the call", s.name, opts, err)
			}
		}
		check(t, rdb, "o", []byte("9"))
		must(t, s.call(ctx, c, "o", []byte("0"), Expire(time.Millisecond)))
	}
}
