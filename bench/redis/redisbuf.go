package redis

import (
	"context"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/redisbuf"
	goredis "github.com/redis/go-redis/v9"
)

// piece is how much of a longer value is asked for at a time, as redisbuf.Pieces advises.
const piece = 512 << 10

// A redisbufClient is a redisbuf client beside a go-redis client, shared by all goroutines.
type redisbufClient struct {
	opened
	site *Site
	rdb  *goredis.Client
	c    *redisbuf.Client
	task func(r *redisbufClient) (func(context.Context) error, error)
}

func openRedisbuf(s *Site, task func(r *redisbufClient) (func(context.Context) error, error)) (client, error) {
	return openRedisbufWith(s, task, redisbuf.Pieces(piece))
}

func openRedisbufWith(
	s *Site, task func(r *redisbufClient) (func(context.Context) error, error), opts ...redisbuf.Option,
) (client, error) {
	rdb := newGoRedis(s)
	c, err := redisbuf.New(rdb, opts...)
	if err != nil {
		rdb.Close()
		return nil, err
	}
	return &redisbufClient{site: s, rdb: rdb, c: c, task: task}, nil
}

func (r *redisbufClient) worker(int) (func(context.Context) error, error) { return r.task(r) }

func (r *redisbufClient) close() {
	r.opened.close()
	r.c.Close()
	r.rdb.Close()
}

func openGetToBuffer(_ context.Context, s *Site) (client, error) {
	return openRedisbuf(s, (*redisbufClient).getToBuffer)
}

// openGetToBufferWhole has the server send each value by one command, as redisbuf does unless it is told otherwise.
func openGetToBufferWhole(_ context.Context, s *Site) (client, error) {
	return openRedisbufWith(s, (*redisbufClient).getToBuffer)
}

func (r *redisbufClient) getToBuffer() (func(context.Context) error, error) {
	buf := make([]byte, r.site.Size)
	return func(ctx context.Context) error {
		n, err := r.c.GetToBuffer(ctx, key, buf)
		r.site.saw(buf[:n])
		return err
	}, nil
}

func openGetChain(_ context.Context, s *Site) (client, error) {
	return openRedisbuf(s, (*redisbufClient).getChain)
}

// openGetChainWhole is to openGetChain what openGetToBufferWhole is to openGetToBuffer.
func openGetChainWhole(_ context.Context, s *Site) (client, error) {
	return openRedisbufWith(s, (*redisbufClient).getChain)
}

// getChain reads with a limit that says nothing about the value.
func (r *redisbufClient) getChain() (func(context.Context) error, error) {
	const most = 512 << 20
	chain := new(millrace.Chain)
	return func(ctx context.Context) error {
		if err := r.c.GetChain(ctx, key, chain, most); err != nil {
			return err
		}
		for p := range chain.All() {
			r.site.saw(p)
		}
		chain.Release()
		return nil
	}, nil
}

func openSetFromBuffer(_ context.Context, s *Site) (client, error) {
	value := s.value()
	return openRedisbuf(s, func(r *redisbufClient) (func(context.Context) error, error) {
		return func(ctx context.Context) error { return r.c.SetFromBuffer(ctx, setKey, value) }, nil
	})
}

// chainBlock is what the blocks of a chain have that is set: those of a Reader under a flood.
const chainBlock = 64 << 10

// A chainHolder releases the chain that was set.
type chainHolder struct{ millrace.Chain }

func (c *chainHolder) Close() error {
	c.Release()
	return nil
}

func openSetChain(_ context.Context, s *Site) (client, error) {
	value := s.value()
	return openRedisbuf(s, func(r *redisbufClient) (func(context.Context) error, error) {
		chain := new(chainHolder)
		r.opened = append(r.opened, chain)
		for left := value; len(left) > 0; {
			n := min(len(left), chainBlock)
			d := millrace.DefaultPool.Get(n)
			copy(d.Bytes(), left[:n])
			ref := d.Freeze(n)
			chain.Append(&ref)
			left = left[n:]
		}
		return func(ctx context.Context) error { return r.c.SetChain(ctx, setKey, &chain.Chain) }, nil
	})
}

func openGetTo(_ context.Context, s *Site) (client, error) {
	return openRedisbuf(s, func(r *redisbufClient) (func(context.Context) error, error) {
		to, err := r.dial("tcp", s.Sink)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			_, err := r.c.GetTo(ctx, key, to)
			return err
		}, nil
	})
}

func openSetFile(_ context.Context, s *Site) (client, error) {
	return openRedisbuf(s, func(r *redisbufClient) (func(context.Context) error, error) {
		f, err := r.open(s)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return r.c.SetFile(ctx, setKey, f) }, nil
	})
}
