package redis

import (
	"context"
	"io"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/redisbuf"
)

// newGoRedis makes a go-redis client as its README does.
func newGoRedis(s *Site) *goredis.Client { return goredis.NewClient(&goredis.Options{Addr: s.Addr}) }

// openGoRedis has one go-redis client for all goroutines.
func openGoRedis(s *Site, worker func(c *client, rdb *goredis.Client) (call, error)) (*client, error) {
	rdb := newGoRedis(s)
	return &client{opened{rdb}, func(c *client) (call, error) { return worker(c, rdb) }}, nil
}

func openGoRedisGet(s *Site) (*client, error) {
	return openGoRedis(s, func(_ *client, rdb *goredis.Client) (call, error) {
		return func(ctx context.Context) error {
			p, err := rdb.Get(ctx, key).Bytes()
			s.saw(p)
			return err
		}, nil
	})
}

// bufferFor is what a value is read into. go-redis asks for two bytes more, in which the end of the reply fits, and so saves
// a read.
func bufferFor(s *Site) []byte { return make([]byte, s.Size+2) }

func openGoRedisGetToBuffer(s *Site) (*client, error) {
	return openGoRedis(s, func(_ *client, rdb *goredis.Client) (call, error) {
		buf := bufferFor(s)
		return func(ctx context.Context) error {
			cmd := rdb.GetToBuffer(ctx, key, buf)
			s.saw(cmd.Bytes())
			return cmd.Err()
		}, nil
	})
}

func openGoRedisSet(s *Site) (*client, error) {
	value := s.value()
	return openGoRedis(s, func(_ *client, rdb *goredis.Client) (call, error) {
		return func(ctx context.Context) error { return rdb.Set(ctx, setKey, value, 0).Err() }, nil
	})
}

func openGoRedisSetFromBuffer(s *Site) (*client, error) {
	value := s.value()
	return openGoRedis(s, func(_ *client, rdb *goredis.Client) (call, error) {
		return func(ctx context.Context) error { return rdb.SetFromBuffer(ctx, setKey, value).Err() }, nil
	})
}

type closeFunc func()

func (f closeFunc) Close() error { f(); return nil }

// openRueidis has one rueidis client for all goroutines.
func openRueidis(s *Site, worker func(c *client, r rueidis.Client) (call, error)) (*client, error) {
	r, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, DisableCache: true})
	if err != nil {
		return nil, err
	}
	return &client{opened{closeFunc(r.Close)}, func(c *client) (call, error) { return worker(c, r) }}, nil
}

func openRueidisGet(s *Site) (*client, error) {
	return openRueidis(s, func(_ *client, r rueidis.Client) (call, error) {
		return func(ctx context.Context) error {
			p, err := r.Do(ctx, r.B().Get().Key(key).Build()).AsBytes()
			s.saw(p)
			return err
		}, nil
	})
}

func openRueidisSet(s *Site) (*client, error) {
	value := s.value()
	return openRueidis(s, func(_ *client, r rueidis.Client) (call, error) {
		return func(ctx context.Context) error {
			return r.Do(ctx, r.B().Set().Key(setKey).Value(rueidis.BinaryString(value)).Build()).Error()
		}, nil
	})
}

// stream reads a value to w.
func stream(ctx context.Context, r rueidis.Client, w io.Writer) error {
	values := r.DoStream(ctx, r.B().Get().Key(key).Build())
	for values.HasNext() {
		if _, err := values.WriteTo(w); err != nil {
			return err
		}
	}
	if err := values.Error(); err != io.EOF {
		return err
	}
	return nil
}

func openRueidisStream(s *Site) (*client, error) {
	var w io.Writer = io.Discard
	if s.audit != nil {
		w = auditor{s}
	}
	return openRueidis(s, func(_ *client, r rueidis.Client) (call, error) {
		return func(ctx context.Context) error { return stream(ctx, r, w) }, nil
	})
}

// openRedisbuf has one redisbuf client, beside a go-redis client, for all goroutines.
func openRedisbuf(s *Site, worker func(c *client, r *redisbuf.Client) (call, error)) (*client, error) {
	rdb := newGoRedis(s)
	r, err := redisbuf.New(rdb)
	if err != nil {
		rdb.Close()
		return nil, err
	}
	return &client{opened{rdb, closeFunc(func() { r.Close() })}, func(c *client) (call, error) { return worker(c, r) }}, nil
}

func openGetToBuffer(s *Site) (*client, error) {
	return openRedisbuf(s, func(_ *client, r *redisbuf.Client) (call, error) {
		buf := make([]byte, s.Size)
		return func(ctx context.Context) error {
			n, err := r.GetToBuffer(ctx, key, buf)
			s.saw(buf[:n])
			return err
		}, nil
	})
}

// openGetChain reads with a limit far above the value.
func openGetChain(s *Site) (*client, error) {
	const most = 512 << 20
	return openRedisbuf(s, func(_ *client, r *redisbuf.Client) (call, error) {
		chain := new(millrace.Chain)
		return func(ctx context.Context) error {
			if err := r.GetChain(ctx, key, chain, most); err != nil {
				return err
			}
			for p := range chain.All() {
				s.saw(p)
			}
			chain.Release()
			return nil
		}, nil
	})
}

func openSetFromBuffer(s *Site) (*client, error) {
	value := s.value()
	return openRedisbuf(s, func(_ *client, r *redisbuf.Client) (call, error) {
		return func(ctx context.Context) error { return r.SetFromBuffer(ctx, setKey, value) }, nil
	})
}

// chainBlock is the size of the blocks of a chain that is set, as a Reader makes them under a flood.
const chainBlock = 64 << 10

func openSetChain(s *Site) (*client, error) {
	value := s.value()
	return openRedisbuf(s, func(c *client, r *redisbuf.Client) (call, error) {
		chain, pool := new(millrace.Chain), millrace.NewPool()
		c.add(closeFunc(chain.Release))
		for left := value; len(left) > 0; {
			n := min(len(left), chainBlock)
			d := pool.Get(n)
			copy(d.Bytes(), left[:n])
			ref := d.Freeze(n)
			chain.Append(&ref)
			left = left[n:]
		}
		return func(ctx context.Context) error { return r.SetChain(ctx, setKey, chain) }, nil
	})
}
