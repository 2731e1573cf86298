package redisbuf

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace-io/millrace/internal/redistest"
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
		must(t, s.call(ctx, c.commands, "o", []byte("1"), Expire(time.Hour)))
		ttl(59*time.Minute, time.Hour)
		must(t, s.call(ctx, c.commands, "o", []byte("2"), KeepTTL()))
		ttl(59*time.Minute, time.Hour)
		must(t, s.call(ctx, c.commands, "o", []byte("3")))
		ttl(none, none)
		must(t, s.call(ctx, c.commands, "o", []byte("4"), Expire(90*time.Second+time.Millisecond), IfPresent()))
		ttl(80*time.Second, 90*time.Second+time.Millisecond)
		must(t, s.call(ctx, c.commands, "o", []byte("5"), ExpireAt(time.Now().Add(time.Hour).Truncate(time.Second))))
		ttl(59*time.Minute, time.Hour)
		must(t, s.call(ctx, c.commands, "o", []byte("6"), ExpireAt(time.UnixMilli(time.Now().UnixMilli()/1000*1000+3600_001))))
		ttl(59*time.Minute, time.Hour+time.Millisecond)
		if err := s.call(ctx, c.commands, "o", []byte("7"), IfAbsent(), Expire(time.Minute)); err != redis.Nil {
			t.Fatalf("%s, IfAbsent: %v", s.name, err)
		}
		check(t, rdb, "o", []byte("6"))
		must(t, rdb.Del(ctx, "o").Err())
		if err := s.call(ctx, c.commands, "o", []byte("8"), IfPresent()); err != redis.Nil {
			t.Fatalf("%s, IfPresent: %v", s.name, err)
		}
		must(t, s.call(ctx, c.commands, "o", []byte("9"), IfAbsent()))
		check(t, rdb, "o", []byte("9"))

		for _, opts := range [][]SetOption{
			{KeepTTL(), Expire(time.Second)}, {IfAbsent(), IfPresent()}, {Expire(0)}, {Expire(-time.Second)},
			{Expire(time.Microsecond)}, {ExpireAt(time.Time{})},
		} {
			if err := s.call(ctx, c.commands, "o", []byte("0"), opts...); err == nil || isServerError(err) {
				t.Fatalf("%s with %v: %v", s.name, opts, err)
			}
		}
		check(t, rdb, "o", []byte("9"))
	}
}

// A time that nobody lives to see, as in "for ever", is not one that has passed.
func TestExpireAtTheEndOfTime(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "end", "before", 0).Err())
	for _, at := range []time.Time{
		time.Unix(1<<63-62135596801, 999999999), // the last one that a time.Time can be compared by
		time.Unix(1<<62, 1e6), time.Unix(1<<60+1, 123e6),
	} {
		err := c.SetFromBuffer(ctx, "end", []byte("after"), ExpireAt(at))
		if !isServerError(err) || !strings.Contains(err.Error(), "expire") {
			t.Errorf("%d s: %v", at.Unix(), err)
		}
		check(t, rdb, "end", []byte("before"))
	}
	must(t, c.SetFromBuffer(ctx, "end", []byte("after"), ExpireAt(time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC))))
	check(t, rdb, "end", []byte("after"))
}

// IFEQ is younger than the servers that most people have: those say so, and go on.
func TestSetIfEqual(t *testing.T) {
	c, rdb := shared(t)
	ctx := bounded(t)
	must(t, rdb.Set(ctx, "ifeq", "old", 0).Err())
	err := c.SetFromBuffer(ctx, "ifeq", []byte("new"), IfEqual("old"))
	if redis.HasErrorPrefix(err, "syntax error") {
		check(t, rdb, "ifeq", []byte("old"))
		idle(t, c, 1)
		h := redistest.StartHostile(t, redistest.Say("+OK\r\n"), redistest.Say("_\r\n"))
		c, _ := clientOf(t, h.Options())
		must(t, c.SetFromBuffer(ctx, "k", []byte("new"), IfEqual("old"), Expire(time.Second)))
		if err := c.SetFromBuffer(ctx, "k", []byte("new"), IfEqual("old")); err != redis.Nil {
			t.Fatal(err)
		}
		want := []string{"SET k new EX 1 IFEQ old", "SET k new IFEQ old"}
		if got := h.Requests(); strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Fatal(got)
		}
		return
	}
	must(t, err)
	if err := c.SetFromBuffer(ctx, "ifeq", []byte("x"), IfEqual("old")); err != redis.Nil {
		t.Fatal(err)
	}
	check(t, rdb, "ifeq", []byte("new"))
}
