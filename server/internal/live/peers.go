package live

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
)

// Peers are the other nodes of a cluster: what they ask of a Hub, and what it gets from them.
type Peers struct{ hub *Hub }

// NewPeers returns the peers of h.
func NewPeers(h *Hub) Peers { return Peers{h} }

// Silent returns how long the publisher of a stream that this node owns has sent nothing, and whether it is away.
func (e Peers) Silent(name string) (silent time.Duration, away bool) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	s := e.hub.streams[name]
	if s == nil || s.lease == nil {
		return 0, false
	}
	return time.Duration(now() - s.publisher.heard.Load()), s.pause != nil
}

// Wanted reports whether there are viewers, or were lately, for a stream that this node does not own.
func (e Peers) Wanted(name string) bool { return e.hub.wanted(name) }

// Lost ends the ownership of a stream with that epoch: another node has it. Its publisher, and what is sent to other
// nodes, ends at once. Its viewers stay, and wait for what is pulled.
func (e Peers) Lost(name string, epoch uint64) {
	e.hub.mu.Lock()
	s := e.hub.streams[name]
	lost := s != nil && s.lease != nil && s.lease.Epoch() == epoch
	if lost {
		e.hub.lose(s)
	}
	e.hub.mu.Unlock()
	if lost {
		s.log.Warn("another node owns the stream now", "epoch", epoch)
		e.hub.want(name)
	}
}

// CheckOwned returns a [refuse.Refusal] unless this node owns the stream of that name, and knows with which epoch.
func (e Peers) CheckOwned(name string) error {
	if epoch, ok := e.hub.owns(name); !ok || epoch == 0 { // otherwise it waits until it is known what the stream is
		return errNotOwner(name)
	}
	return nil
}

// AdmitRequest takes one of the places of viewers for a request that waits for what another node has. release gives it back, once.
// The context that is returned ends with ctx, and when h closes.
func (e Peers) AdmitRequest(ctx context.Context) (admitted context.Context, release func(), err error) {
	if err := e.hub.admitted.Acquire(); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.hub.ends, func() { cancel(refuse.ErrShutdown) })
	return ctx, sync.OnceFunc(func() {
		stop()
		cancel(nil)
		e.hub.admitted.Release()
	}), nil
}
