package redis

import (
	"context"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/redisbuf"
)

func get(ctx context.Context, c *redisbuf.Client, limit int) (n int, err error) {
	var v millrace.Chain
	if err := c.GetChain(ctx, "key", &v, limit); err != nil { // want `v is not released`
		return 0, err
	}
	return v.Len(), nil
}

func set(ctx context.Context, c *redisbuf.Client, v millrace.Chain) error {
	v.Release()
	return c.SetChain(ctx, "key", &v) // want `SetChain of v after its release`
}

func readerAt(ctx context.Context, c *redisbuf.Client, p []byte) (int, error) {
	r, err := c.ReaderAt(ctx, "key") // want `the redisbuf.ReaderAt is not ended with Close on the path`
	if err != nil {
		return 0, err
	}
	return r.ReadAt(p, 0)
}

func correct(ctx context.Context, c *redisbuf.Client) error {
	conn, err := c.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var v millrace.Chain
	defer v.Release()
	if err := conn.GetChain(ctx, "key", &v, 1<<20); err != nil {
		return err
	}
	return conn.SetChain(ctx, "copy", &v)
}
