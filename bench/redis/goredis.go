package redis

import (
	"context"
	"net"
	"os"

	goredis "github.com/redis/go-redis/v9"
)

// A goRedisClient is a go-redis client as its README makes one, shared by all goroutines.
type goRedisClient struct {
	opened
	site *Site
	rdb  *goredis.Client
	task func(g *goRedisClient) (func(context.Context) error, error)
}

func newGoRedis(s *Site) *goredis.Client {
	return goredis.NewClient(&goredis.Options{Network: s.Network, Addr: s.Addr})
}

func openGoRedis(s *Site, task func(g *goRedisClient) (func(context.Context) error, error)) (client, error) {
	return &goRedisClient{site: s, rdb: newGoRedis(s), task: task}, nil
}

func (g *goRedisClient) worker(int) (func(context.Context) error, error) { return g.task(g) }

func (g *goRedisClient) close() {
	g.opened.close()
	g.rdb.Close()
}

func openGoRedisGet(_ context.Context, s *Site) (client, error) {
	return openGoRedis(s, func(g *goRedisClient) (func(context.Context) error, error) {
		return func(ctx context.Context) error {
			p, err := g.rdb.Get(ctx, key).Bytes()
			s.saw(p)
			return err
		}, nil
	})
}

// bufferFor is what a value is read into: go-redis asks for two bytes more, in which the end of the reply fits, and so
// saves a read.
func bufferFor(s *Site) []byte { return make([]byte, s.Size+2) }

func openGoRedisGetToBuffer(_ context.Context, s *Site) (client, error) {
	return openGoRedis(s, func(g *goRedisClient) (func(context.Context) error, error) {
		buf := bufferFor(s)
		return func(ctx context.Context) error {
			cmd := g.rdb.GetToBuffer(ctx, key, buf)
			s.saw(cmd.Bytes())
			return cmd.Err()
		}, nil
	})
}

func openGoRedisSet(_ context.Context, s *Site) (client, error) {
	value := s.value()
	return openGoRedis(s, func(g *goRedisClient) (func(context.Context) error, error) {
		return func(ctx context.Context) error { return g.rdb.Set(ctx, setKey, value, 0).Err() }, nil
	})
}

func openGoRedisSetFromBuffer(_ context.Context, s *Site) (client, error) {
	value := s.value()
	return openGoRedis(s, func(g *goRedisClient) (func(context.Context) error, error) {
		return func(ctx context.Context) error { return g.rdb.SetFromBuffer(ctx, setKey, value).Err() }, nil
	})
}

// openGoRedisTo has each value that was read written to a connection.
func openGoRedisTo(s *Site, read func(context.Context, *goredis.Client, []byte) ([]byte, error)) (client, error) {
	return openGoRedis(s, func(g *goRedisClient) (func(context.Context) error, error) {
		to, err := g.dial("tcp", s.Sink)
		if err != nil {
			return nil, err
		}
		buf := bufferFor(s)
		return func(ctx context.Context) error { return writeRead(ctx, g.rdb, to, buf, read) }, nil
	})
}

func writeRead(ctx context.Context, rdb *goredis.Client, to net.Conn, buf []byte,
	read func(context.Context, *goredis.Client, []byte) ([]byte, error)) error {
	p, err := read(ctx, rdb, buf)
	if err != nil {
		return err
	}
	_, err = to.Write(p)
	return err
}

func openGoRedisGetWrite(_ context.Context, s *Site) (client, error) {
	return openGoRedisTo(s, func(ctx context.Context, rdb *goredis.Client, _ []byte) ([]byte, error) {
		return rdb.Get(ctx, key).Bytes()
	})
}

func openGoRedisToBufferWrite(_ context.Context, s *Site) (client, error) {
	return openGoRedisTo(s, func(ctx context.Context, rdb *goredis.Client, buf []byte) ([]byte, error) {
		cmd := rdb.GetToBuffer(ctx, key, buf)
		return cmd.Bytes(), cmd.Err()
	})
}

func openGoRedisFile(_ context.Context, s *Site) (client, error) {
	return openGoRedis(s, func(g *goRedisClient) (func(context.Context) error, error) {
		return func(ctx context.Context) error {
			p, err := os.ReadFile(s.File)
			if err != nil {
				return err
			}
			return g.rdb.Set(ctx, setKey, p, 0).Err()
		}, nil
	})
}
