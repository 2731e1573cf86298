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

func pipelined(ctx context.Context, c *redisbuf.Client, items map[string][]byte) error {
	p := c.Pipeline()
	for key, value := range items {
		var v millrace.Chain
		v.AppendCopy(value)
		p.SetChain(key, &v)
		v.Release() // want `Release ends the life of v, which the Pipeline uses until the Exec at line`
	}
	return p.Exec(ctx)
}

func pipelinedLines(ctx context.Context, c *redisbuf.Client, r *millrace.Reader) error {
	p := c.Pipeline()
	for range 10 {
		line, err := r.ReadSlice('\n') // want `ReadSlice ends the life of a slice, which the Pipeline uses until the Exec at line`
		if err != nil {
			return err
		}
		p.SetFromBuffer("key", line[2:])
	}
	return p.Exec(ctx)
}

func pipelinedCorrectly(ctx context.Context, c *redisbuf.Client, r *millrace.Reader, max int) error {
	p := c.Pipeline()
	values := make([]millrace.Chain, 100)
	defer func() {
		for i := range values {
			values[i].Release()
		}
	}()
	for i := range values {
		v := &values[i]
		if err := r.ReadChain(v, 10); err != nil {
			return err
		}
		if v.Len() > max {
			v.Release()
			continue
		}
		p.SetChain("key", v)
	}
	if err := p.Exec(ctx); err != nil {
		return err
	}
	var one millrace.Chain
	for range 10 {
		one.AppendCopy([]byte("text"))
		p.SetChain("key", &one)
		if max < 0 {
			one.Release()
			return nil
		}
		line, err := r.ReadSlice('\n')
		if err != nil {
			one.Release()
			return err
		}
		p.SetFromBuffer("key", line)
		if err := p.Exec(ctx); err != nil {
			one.Release()
			return err
		}
		one.Release()
	}
	return nil
}
