package redis

import (
	"context"
	"crypto/tls"
	"io"
	"net"

	"github.com/redis/rueidis"
)

// A rueidisClient is a rueidis client, shared by all goroutines.
type rueidisClient struct {
	opened
	site *Site
	c    rueidis.Client
	task func(r *rueidisClient) (func(context.Context) error, error)
}

func rueidisOption(s *Site) rueidis.ClientOption {
	opt := rueidis.ClientOption{InitAddress: []string{s.Addr}, DisableCache: true}
	if s.Network == "unix" {
		opt.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", addr)
		}
	}
	return opt
}

func openRueidis(s *Site, task func(r *rueidisClient) (func(context.Context) error, error)) (client, error) {
	c, err := rueidis.NewClient(rueidisOption(s))
	if err != nil {
		return nil, err
	}
	return &rueidisClient{site: s, c: c, task: task}, nil
}

func (r *rueidisClient) worker(int) (func(context.Context) error, error) { return r.task(r) }

func (r *rueidisClient) close() {
	r.opened.close()
	r.c.Close()
}

func openRueidisGet(_ context.Context, s *Site) (client, error) {
	return openRueidis(s, func(r *rueidisClient) (func(context.Context) error, error) {
		return func(ctx context.Context) error {
			p, err := r.c.Do(ctx, r.c.B().Get().Key(key).Build()).AsBytes()
			s.saw(p)
			return err
		}, nil
	})
}

func openRueidisSet(_ context.Context, s *Site) (client, error) {
	value := s.value()
	return openRueidis(s, func(r *rueidisClient) (func(context.Context) error, error) {
		return func(ctx context.Context) error {
			return r.c.Do(ctx, r.c.B().Set().Key(setKey).Value(rueidis.BinaryString(value)).Build()).Error()
		}, nil
	})
}

// stream reads a value to w.
func (r *rueidisClient) stream(ctx context.Context, w io.Writer) error {
	values := r.c.DoStream(ctx, r.c.B().Get().Key(key).Build())
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

func openRueidisStream(_ context.Context, s *Site) (client, error) {
	var w io.Writer = io.Discard
	if s.audit != nil {
		w = auditor{s}
	}
	return openRueidis(s, func(r *rueidisClient) (func(context.Context) error, error) {
		return func(ctx context.Context) error { return r.stream(ctx, w) }, nil
	})
}

func openRueidisStreamTo(_ context.Context, s *Site) (client, error) {
	return openRueidis(s, func(r *rueidisClient) (func(context.Context) error, error) {
		to, err := r.dial("tcp", s.Sink)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return r.stream(ctx, to) }, nil
	})
}
