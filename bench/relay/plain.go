package relay

import "context"

// Plain is a relay as it is written with net/http.
type Plain struct {
	Builder Builder
	Share   bool // viewers share the bytes, and leave net/http; else each gets a copy, by Write and Flush
}

// Name implements Contender.
func (p Plain) Name() string {
	if p.Share {
		return "Go, shared slices, hijack, net.Buffers"
	}
	return "Go, a copy a viewer, Write and Flush"
}

// Prepare builds the program.
func (p Plain) Prepare(ctx context.Context) error {
	_, err := p.build(ctx)
	return err
}

func (p Plain) build(ctx context.Context) (string, error) {
	return p.Builder.Build(ctx, "github.com/millrace-io/millrace/bench/cmd/plainrelay")
}

// Start implements Contender.
func (p Plain) Start(ctx context.Context, _ string, _ Case) (*Server, error) {
	bin, err := p.build(ctx)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	args := []string{"-listen", addr}
	if p.Share {
		args = append(args, "-share")
	}
	s, err := start(ctx, addr, bin, args...)
	if err != nil {
		return nil, err
	}
	s.Config.URL = "http://" + addr
	return s, nil
}
