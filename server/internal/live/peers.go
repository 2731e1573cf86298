package live

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
)

// Peers serves requests from the other nodes of a cluster, and reads streams from these nodes.
type Peers struct{ hub *Hub }

// NewPeers returns the Peers of h.
func NewPeers(h *Hub) Peers { return Peers{h} }

// Silent returns the time since the publisher of a stream last sent data, and whether the stream is
// waiting for a publisher. If this node does not own the stream, Silent returns 0 and false.
func (e Peers) Silent(name string) (d time.Duration, waiting bool) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	s := e.hub.streams[name]
	if s == nil || s.lease == nil {
		return 0, false
	}
	return time.Duration(nanotime() - s.publisher.lastInput.Load()), s.pause != nil
}

// Wanted reports whether a stream that this node does not own has viewers at this node, or had
// viewers until a short time ago.
func (e Peers) Wanted(name string) bool { return e.hub.isWanted(name) }

// Lost tells this node that another node has become the owner of a stream. epoch identifies the
// lost ownership. If this node has since become the owner again, Lost does nothing.
//
// The stream's publisher ends at once, and other nodes no longer get the stream from this node. The
// viewers stay, and wait until this node pulls the stream from the new owner.
func (e Peers) Lost(name string, epoch uint64) {
	e.hub.mu.Lock()
	s := e.hub.streams[name]
	lost := s != nil && s.lease != nil && s.lease.Epoch() == epoch
	if lost {
		e.hub.revoke(s)
	}
	e.hub.mu.Unlock()
	if lost {
		s.log.Warn("another node owns the stream now", "epoch", epoch)
		e.hub.want(name)
	}
}

// CheckOwned returns a [refuse.Refusal] unless this node owns the named stream and the cluster has
// confirmed the ownership.
func (e Peers) CheckOwned(name string) error {
	// A stream with an unknown format is not refused. A request for the stream waits until the
	// format is known.
	if epoch, ok := e.hub.owns(name); !ok || epoch == 0 {
		return errNotOwner(name)
	}
	return nil
}

// AdmitRequest admits a player's request for a stream that another node owns. The request counts as
// a viewer until the caller calls release. The returned context ends when ctx ends, when the Hub
// closes, or when release is called.
func (e Peers) AdmitRequest(ctx context.Context) (admitted context.Context, release func(),
	err error) {
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
