package redis

import (
	"context"
	"io"

	"github.com/redis/rueidis"

	"github.com/millrace-io/millrace"
)

func goRedisGet(s *site) (call, error) {
	return func(ctx context.Context) error {
		p, err := s.goredis.Get(ctx, key).Bytes()
		s.saw(p)
		return err
	}, nil
}

// bufferFor returns a buffer for a value of the given size. It also has room for the CRLF after the
// value, which saves go-redis a read.
func bufferFor(size int) []byte { return make([]byte, size+2) }

func goRedisGetToBuffer(s *site) (call, error) {
	buf := bufferFor(s.size)
	return func(ctx context.Context) error {
		cmd := s.goredis.GetToBuffer(ctx, key, buf)
		s.saw(cmd.Bytes())
		return cmd.Err()
	}, nil
}

func goRedisSet(s *site) (call, error) {
	value := s.value()
	return func(ctx context.Context) error { return s.goredis.Set(ctx, setKey, value, 0).Err() },
		nil
}

func goRedisSetFromBuffer(s *site) (call, error) {
	value := s.value()
	return func(ctx context.Context) error {
		return s.goredis.SetFromBuffer(ctx, setKey, value).Err()
	}, nil
}

func rueidisGet(s *site) (call, error) {
	r := s.rueidis
	return func(ctx context.Context) error {
		p, err := r.Do(ctx, r.B().Get().Key(key).Build()).AsBytes()
		s.saw(p)
		return err
	}, nil
}

func rueidisSet(s *site) (call, error) {
	r, value := s.rueidis, s.value()
	return func(ctx context.Context) error {
		return r.Do(ctx, r.B().Set().Key(setKey).Value(rueidis.BinaryString(value)).Build()).Error()
	}, nil
}

// An auditor is an io.Writer that passes the received bytes to the site's audit.
type auditor struct{ s *site }

func (a auditor) Write(p []byte) (int, error) {
	a.s.saw(p)
	return len(p), nil
}

func rueidisStream(s *site) (call, error) {
	r, w := s.rueidis, io.Writer(io.Discard)
	if s.audit != nil {
		w = auditor{s}
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

func redisbufGetToBuffer(s *site) (call, error) {
	buf := make([]byte, s.size)
	return func(ctx context.Context) error {
		n, err := s.redisbuf.GetToBuffer(ctx, key, buf)
		s.saw(buf[:n])
		return err
	}, nil
}

// redisbufGetChain reads values into a chain. The values are much smaller than its size limit.
func redisbufGetChain(s *site) (call, error) {
	const maxSize = 512 << 20
	chain := new(millrace.Chain)
	return func(ctx context.Context) error {
		if err := s.redisbuf.GetChain(ctx, key, chain, maxSize); err != nil {
			return err
		}
		for p := range chain.All() {
			s.saw(p)
		}
		chain.Release()
		return nil
	}, nil
}

func redisbufSetFromBuffer(s *site) (call, error) {
	value := s.value()
	return func(ctx context.Context) error { return s.redisbuf.SetFromBuffer(ctx, setKey, value) },
		nil
}

// redisbufSetChain sets a chain of blocks. They are as large as the largest blocks of a Reader.
func redisbufSetChain(s *site) (call, error) {
	const block = 64 << 10
	chain, pool := new(millrace.Chain), millrace.NewPool()
	s.add(closeFunc(chain.Release))
	for left := s.value(); len(left) > 0; {
		n := min(len(left), block)
		d := pool.Get(n)
		copy(d.Bytes(), left[:n])
		ref := d.Freeze(n)
		chain.Append(&ref)
		left = left[n:]
	}
	return func(ctx context.Context) error { return s.redisbuf.SetChain(ctx, setKey, chain) }, nil
}
