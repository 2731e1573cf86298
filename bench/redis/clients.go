package redis

import (
	"context"
	"io"

	"github.com/redis/rueidis"

	"github.com/millrace-io/millrace"
)

func goRedisGet(f *fixture) (call, error) {
	return func(ctx context.Context) error {
		p, err := f.goredis.Get(ctx, key).Bytes()
		f.observe(p)
		return err
	}, nil
}

// bufferFor returns a buffer for a value and the CRLF after the value, so that go-redis needs one
// read less.
func bufferFor(size int) []byte { return make([]byte, size+2) }

func goRedisGetToBuffer(f *fixture) (call, error) {
	buf := bufferFor(f.size)
	return func(ctx context.Context) error {
		cmd := f.goredis.GetToBuffer(ctx, key, buf)
		f.observe(cmd.Bytes())
		return cmd.Err()
	}, nil
}

func goRedisSet(f *fixture) (call, error) {
	value := f.value()
	return func(ctx context.Context) error { return f.goredis.Set(ctx, setKey, value, 0).Err() },
		nil
}

func goRedisSetFromBuffer(f *fixture) (call, error) {
	value := f.value()
	return func(ctx context.Context) error {
		return f.goredis.SetFromBuffer(ctx, setKey, value).Err()
	}, nil
}

func rueidisGet(f *fixture) (call, error) {
	r := f.rueidis
	return func(ctx context.Context) error {
		p, err := r.Do(ctx, r.B().Get().Key(key).Build()).AsBytes()
		f.observe(p)
		return err
	}, nil
}

func rueidisSet(f *fixture) (call, error) {
	r, value := f.rueidis, f.value()
	return func(ctx context.Context) error {
		return r.Do(ctx, r.B().Set().Key(setKey).Value(rueidis.BinaryString(value)).Build()).Error()
	}, nil
}

// An auditor is an io.Writer that passes the received bytes to the fixture's audit.
type auditor struct{ f *fixture }

func (a auditor) Write(p []byte) (int, error) {
	a.f.observe(p)
	return len(p), nil
}

func rueidisStream(f *fixture) (call, error) {
	r, w := f.rueidis, io.Writer(io.Discard)
	if f.audit != nil {
		w = auditor{f}
	}
	return func(ctx context.Context) error {
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
	}, nil
}

func redisbufGetToBuffer(f *fixture) (call, error) {
	buf := make([]byte, f.size)
	return func(ctx context.Context) error {
		n, err := f.redisbuf.GetToBuffer(ctx, key, buf)
		f.observe(buf[:n])
		return err
	}, nil
}

func redisbufGetChain(f *fixture) (call, error) {
	const maxSize = 512 << 20
	chain := new(millrace.Chain)
	return func(ctx context.Context) error {
		if err := f.redisbuf.GetChain(ctx, key, chain, maxSize); err != nil {
			return err
		}
		for p := range chain.All() {
			f.observe(p)
		}
		chain.Release()
		return nil
	}, nil
}

func redisbufSetFromBuffer(f *fixture) (call, error) {
	value := f.value()
	return func(ctx context.Context) error { return f.redisbuf.SetFromBuffer(ctx, setKey, value) },
		nil
}

// redisbufSetChain uses a Chain with blocks of 64 KiB, the largest size that a Reader uses.
func redisbufSetChain(f *fixture) (call, error) {
	const block = 64 << 10
	chain, pool := new(millrace.Chain), millrace.NewPool()
	f.add(closeFunc(chain.Release))
	for left := f.value(); len(left) > 0; {
		n := min(len(left), block)
		d := pool.Get(n)
		copy(d.Bytes(), left[:n])
		ref := d.Freeze(n)
		chain.Append(&ref)
		left = left[n:]
	}
	return func(ctx context.Context) error { return f.redisbuf.SetChain(ctx, setKey, chain) }, nil
}
