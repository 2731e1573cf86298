package relay

import (
	"context"
	"fmt"
	"time"
)

// Bare is the least that a program can do: it has every byte ready before the
// first viewer comes, receives nothing, and only writes.
type Bare struct {
	Builder Builder
	Loop    bool          // one goroutine a stream writes to all its viewers; else each viewer has one, woken for each tag
	Batch   time.Duration // what falls due in that time leaves in one writev
	Nagle   bool
}

// Name implements Contender.
func (b Bare) Name() string {
	name := "bare, a goroutine a viewer"
	if b.Loop {
		name = "bare, one loop"
	}
	if b.Batch > 0 {
		name += fmt.Sprintf(", %v", b.Batch)
	}
	if b.Nagle {
		name += ", Nagle on"
	}
	return name
}

// Prepare builds the program.
func (b Bare) Prepare(ctx context.Context) error {
	_, err := b.build(ctx)
	return err
}

func (b Bare) build(ctx context.Context) (string, error) {
	return b.Builder.Build(ctx, "github.com/millrace-io/millrace/bench/cmd/barerelay")
}

// Start implements Contender.
func (b Bare) Start(ctx context.Context, _ string, _ Case) (*Server, error) {
	bin, err := b.build(ctx)
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, addr, bin, "-listen", addr, fmt.Sprintf("-loop=%t", b.Loop),
		fmt.Sprintf("-batch=%v", b.Batch), fmt.Sprintf("-nagle=%t", b.Nagle))
	if err != nil {
		return nil, err
	}
	s.Config.URL = "http://" + addr
	s.Config.NoPublish = true
	return s, nil
}
