package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace-io/millrace/internal/observe"
	"github.com/millrace-io/millrace/redisbuf"
	"github.com/redis/go-redis/v9"
)

const redisWhat = "Values in and out of a redis-server on a Unix socket, one call after the other"

// Keys in the server: one that is read, and one that is set.
const (
	readKey = "bench:read"
	setKey  = "bench:set"
)

var valueSizes = []struct {
	key, name string
	size      int
}{
	{"1KiB", "1 KiB", 1 << 10},
	{"16KiB", "16 KiB", 16 << 10},
	{"128KiB", "128 KiB", 128 << 10},
	{"1MiB", "1 MiB", 1 << 20},
}

// recordedValue is the size of the values of the load that is recorded, by its place in valueSizes.
const recordedValue = 2

// A value is what is in the server, and how to reach it.
type value struct {
	socket string
	p      []byte
	audit  func(p []byte) // of a test: each value that was read
}

// value is a random one, the same each time.
func newValue(socket string, size int) *value {
	v := &value{socket: socket, p: make([]byte, size)}
	_, _ = rand.NewChaCha8([32]byte{}).Read(v.p)
	return v
}

func (v *value) saw(p []byte) {
	if v.audit != nil {
		v.audit(p)
	}
}

func (v *value) goRedis() *redis.Client {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: v.socket})
}

func redisLength(e Effort) time.Duration {
	turns := 0
	for _, c := range valueContests("", "", new(value)) {
		turns += len(valueSizes) * len(c.contenders) * e.Rounds
	}
	return time.Duration(turns)*e.Turn + 2*e.Record
}

func runRedis(ctx context.Context, s *session) error {
	server, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	s.note(server.version)
	for _, size := range valueSizes {
		v := newValue(server.socket, size.size)
		if err := v.store(ctx); err != nil {
			return err
		}
		for _, c := range valueContests(size.key, size.name, v) {
			if err := c.run(ctx, s); err != nil {
				return err
			}
		}
	}
	return s.recordRedis(ctx, server.socket)
}

// store puts the value where it is read from.
func (v *value) store(ctx context.Context) error {
	rdb := v.goRedis()
	defer rdb.Close()
	return rdb.Set(ctx, readKey, v.p, 0).Err()
}

// valueContests are those for one value: to read it, and to set it.
func valueContests(key, name string, v *value) []contest {
	return []contest{
		{"get-" + key, "GET " + name, "call", []contender{
			{"redisbuf", "redisbuf GetToBuffer", v.redisbuf(getToBuffer)},
			{"gettobuffer", "go-redis GetToBuffer", v.goRedisTask(goRedisGetToBuffer)},
			{"get", "go-redis Get().Bytes", v.goRedisTask(goRedisGet)},
		}},
		{"set-" + key, "SET " + name, "call", []contender{
			{"redisbuf", "redisbuf SetFromBuffer", v.redisbuf(setFromBuffer)},
			{"setfrombuffer", "go-redis SetFromBuffer", v.goRedisTask(goRedisSetFromBuffer)},
		}},
	}
}

// A call moves the value once.
type call func(ctx context.Context) error

func (v *value) redisbuf(make func(*redisbuf.Client, *value) call) func(context.Context) (*task, error) {
	return func(ctx context.Context) (*task, error) {
		rdb := v.goRedis()
		c, err := redisbuf.New(rdb)
		if err != nil {
			_ = rdb.Close()
			return nil, err
		}
		return repeat(ctx, make(c, v), func() {
			_ = c.Close()
			_ = rdb.Close()
		}), nil
	}
}

func (v *value) goRedisTask(make func(*redis.Client, *value) call) func(context.Context) (*task, error) {
	return func(ctx context.Context) (*task, error) {
		rdb := v.goRedis()
		return repeat(ctx, make(rdb, v), func() { _ = rdb.Close() }), nil
	}
}

func repeat(ctx context.Context, f call, close func()) *task {
	return &task{func(n int) error {
		for range n {
			if err := f(ctx); err != nil {
				return err
			}
		}
		return nil
	}, close}
}

func getToBuffer(c *redisbuf.Client, v *value) call {
	buf := make([]byte, len(v.p))
	return func(ctx context.Context) error {
		n, err := c.GetToBuffer(ctx, readKey, buf)
		v.saw(buf[:n])
		return err
	}
}

// goRedisGetToBuffer gives two bytes more than the value has: the end of the reply fits then, which saves a read.
func goRedisGetToBuffer(rdb *redis.Client, v *value) call {
	buf := make([]byte, len(v.p)+2)
	return func(ctx context.Context) error {
		cmd := rdb.GetToBuffer(ctx, readKey, buf)
		v.saw(cmd.Bytes())
		return cmd.Err()
	}
}

func goRedisGet(rdb *redis.Client, v *value) call {
	return func(ctx context.Context) error {
		p, err := rdb.Get(ctx, readKey).Bytes()
		v.saw(p)
		return err
	}
}

func setFromBuffer(c *redisbuf.Client, v *value) call {
	return func(ctx context.Context) error { return c.SetFromBuffer(ctx, setKey, v.p) }
}

func goRedisSetFromBuffer(rdb *redis.Client, v *value) call {
	return func(ctx context.Context) error { return rdb.SetFromBuffer(ctx, setKey, v.p).Err() }
}

// recordRedis has values read once more, by ours and by go-redis as it is used most, and records this process, which is
// where the work is.
func (s *session) recordRedis(ctx context.Context, socket string) error {
	size := valueSizes[recordedValue]
	v := newValue(socket, size.size)
	if err := v.store(ctx); err != nil {
		return err
	}
	get := valueContests(size.key, size.name, v)[0]
	for _, i := range []int{0, 2} {
		who := get.contenders[i]
		if err := s.recordCalls(ctx, who, fmt.Sprintf("GET of %s, one after the other", size.name), size.size); err != nil {
			return err
		}
		s.step("recording", s.effort.Record)
	}
	return nil
}

func (s *session) recordCalls(ctx context.Context, who contender, what string, size int) error {
	t, err := who.open(ctx)
	if err != nil {
		return err
	}
	defer t.close()
	var l observe.Latencies
	r := Recording{Suite: s.suite, Key: who.key, Contender: who.name, What: what, Operation: "calls"}
	return s.recordHere(r, l.Load, func() error {
		began := time.Now()
		for at := began; at.Sub(began) < s.effort.Record; {
			if err := t.do(1); err != nil {
				l.Fail()
				return err
			}
			now := time.Now()
			l.Record(now.Sub(at), int64(size))
			at = now
		}
		return ctx.Err()
	})
}
