package relay

import (
	"context"
	"fmt"
	"time"
)

// Millrace is millrace serve with a latency bound.
type Millrace struct {
	Builder Builder
	Latency time.Duration
	Args    []string // more of them, for serve
}

// Name implements Contender.
func (m Millrace) Name() string { return fmt.Sprintf("millrace, %v", m.Latency) }

// Prepare builds the server.
func (m Millrace) Prepare(ctx context.Context) error {
	_, err := m.build(ctx)
	return err
}

func (m Millrace) build(ctx context.Context) (string, error) {
	return m.Builder.Build(ctx, "github.com/millrace-io/millrace/cmd/millrace")
}

// Start implements Contender.
func (m Millrace) Start(ctx context.Context, _ string, _ Case) (*Server, error) {
	bin, err := m.build(ctx)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	args := append([]string{"serve", "--listen", addr, "--latency", m.Latency.String(), "--log-level", "warn"}, m.Args...)
	s, err := start(ctx, addr, bin, args...)
	if err != nil {
		return nil, err
	}
	s.Config.URL = "http://" + addr
	return s, nil
}
