package relay

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay/fanout"
	"github.com/millrace-io/millrace/server/internal/relay/hlslive"
)

// A Cluster is the other servers that the streams of this one are shared with. Its methods may be called from any
// goroutine. Claim may wait; the others, and those of a [Lease], do not, and call no method of a Hub before they
// return.
type Cluster interface {
	// Claim makes this node the owner of the stream of that name, for which a publisher has come. A claim of a stream that
	// this node owns returns the same Lease. An error is a [refuse.Refusal], or the cause of ctx's end. If it cannot be found out
	// who owns the stream, Claim returns a Lease whose Epoch is 0 until it can.
	Claim(ctx context.Context, name string) (Lease, error)

	// Want says that viewers here want a stream that this node does not own. See [Hub.Wanted].
	Want(name string)

	// Reachable reports whether it can be found out who owns a stream.
	Reachable() bool
}

// A Lease is a node's ownership of a stream. Leases can be compared.
type Lease interface {
	// Epoch is the number of this ownership: greater than that of every owner before. 0: there is none yet.
	Epoch() uint64

	// Current reports whether this node was the owner a moment ago, as far as it can be known. If it was not, because this
	// process was stopped for longer than a lease lasts, other nodes get nothing until it is.
	Current() bool

	// Held reports whether the ownership is neither lost nor released. A lease is no longer held when [Hub.Lost] is
	// called.
	Held() bool

	// Tell says that what Hub.Silent returns has changed: the publisher is away, or is back.
	Tell()

	// Release gives the stream up. It does nothing if the ownership is not held.
	Release()
}

var (

	// errMoved ends a publisher whose stream has another owner.
	errMoved = refuse.New(http.StatusConflict, "this stream is published at another node now")
)

// errNotOwner refuses other nodes that take this one for the owner.
func errNotOwner(name string) error {
	return refuse.New(http.StatusMisdirectedRequest, "this node does not own the stream %q", name)
}

// headerEpoch is the header that tells another node with which epoch this one owns what it sends.
const headerEpoch = "Millrace-Epoch"

const (
	// pullWait is how long a viewer waits for a stream of another node, at least.
	pullWait = 2 * time.Second
	// pullIdle is how long a stream is pulled on after its last viewer has left: a player that comes back finds it.
	pullIdle = 5 * time.Second
	// retryAfter is when a viewer may come again if it could not be found out where its stream is.
	retryAfter = 2 * time.Second
)

// owns reports whether this node owns the stream of that name, with which epoch: 0 if that is not known yet.
func (h *Hub) owns(name string) (epoch uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.streams[name]; s != nil && s.lease != nil {
		return s.lease.Epoch(), true
	}
	return 0, false
}

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
	return time.Duration(now() - s.publisher.heard.Load()), s.wait != nil
}

// Wanted reports whether there are viewers, or were lately, for a stream that this node does not own.
func (e Peers) Wanted(name string) bool { return e.hub.wanted(name) }

// wanted is Peers.Wanted.
func (h *Hub) wanted(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.streams[name]
	switch {
	case h.ends.Err() != nil:
		return false
	case s == nil:
		return len(h.waiting[name]) > 0
	}
	return s.lease == nil && s.unwatched() < h.pullIdle
}

// want tells the cluster if there are viewers for a stream that has no publisher here.
func (h *Hub) want(name string) {
	if h.cfg.Cluster != nil && h.wanted(name) {
		h.cfg.Cluster.Want(name)
	}
}

// Lost ends the ownership of a stream with that epoch: another node has it. Its publisher, and what is sent to other
// nodes, ends at once. Its viewers stay, and wait for what is pulled.
func (e Peers) Lost(name string, epoch uint64) {
	e.hub.mu.Lock()
	s := e.hub.streams[name]
	lost := s != nil && s.lease != nil && s.lease.Epoch() == epoch
	if lost {
		s.lose()
	}
	e.hub.mu.Unlock()
	if lost {
		s.log.Warn("another node owns the stream now", "epoch", epoch)
		e.hub.want(name)
	}
}

// An ownership is what a stream is to the nodes of a cluster.
type ownership struct {
	lease      Lease                // nil if this node does not own the stream, or is alone
	epoch      uint64               // the greatest one of those that have fed it and are over, or are pulled
	peers      map[*viewer]struct{} // other nodes that read it
	ownStart   atomic.Bool          // a frame that viewers can start at has come since this node owns it
	stopRecord context.CancelFunc   // nil if the stream is not, and was not, recorded
}

// lose ends the ownership of s. Hub.mu is held.
func (s *stream) lose() {
	if s.next != nil && s.next.lease == s.lease {
		s.next.cancel(errMoved)
		s.next = nil
	}
	s.epoch = max(s.epoch, s.lease.Epoch())
	s.lease = nil
	if s.wait == nil {
		s.publisher.cancel(errMoved)
	}
	s.cutPeers()
	if s.stopRecord != nil {
		s.stopRecord()
		s.stopRecord = nil
	}
	if w := s.hub.hls.of(s); w != nil {
		s.hub.hls.end(w)
		w.Fail(hlslive.ErrElsewhere)
	}
}

// tell has other nodes know soon whether the stream has a publisher. Hub.mu is held.
func (o *ownership) tell() {
	if o.lease != nil {
		o.lease.Tell()
	}
}

// giveUp releases the lease of s, which has ended. If it was current, other nodes and players get the rest of s. Hub.mu is
// held.
func (s *stream) giveUp() {
	if s.lease == nil {
		return
	}
	if !s.lease.Current() {
		s.cutPeers()
	} else if w := s.hub.hls.of(s); w != nil {
		w.Disown()
	}
	s.lease.Release()
	s.lease = nil
}

// release releases l unless a publisher here has it. Hub.mu is held.
func (h *Hub) release(name string, l Lease) {
	if s := h.streams[name]; l != nil && (s == nil || s.lease != l && (s.next == nil || s.next.lease != l)) {
		l.Release()
	}
}

// cutPeers ends what is sent to other nodes. Hub.mu is held.
func (o *ownership) cutPeers() {
	for v := range o.peers {
		v.transport.End(fanout.Moved)
	}
}

// edges returns the nodes that read the stream. Hub.mu is held.
func (o *ownership) edges() []string {
	var list []string
	for v := range o.peers {
		list = append(list, v.node)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Watch is HTTP.Watch for another node, whose address is node, and which gets only what this node owns. The answer says
// the epoch of that. It ends without its end, as a connection that fails, when this node loses the stream or shuts
// down.
func (e Peers) Watch(w http.ResponseWriter, r *http.Request, name, node string) error {
	want, err := parseWatchRequest(r, name)
	if err != nil {
		return err
	}
	if epoch, ok := e.hub.owns(want.name); !ok || epoch == 0 { // otherwise it waits until it is known what the stream is
		return errNotOwner(want.name)
	}
	want.node = cmp.Or(node, r.RemoteAddr)
	return NewHTTP(e.hub).watch(w, r, want)
}

// Admit takes one of the places of viewers for a request that waits for what another node has. release gives it back, once.
// The context that is returned ends with ctx, and when h closes.
func (e Peers) Admit(ctx context.Context) (admitted context.Context, release func(), err error) {
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

// Absent is what viewers are told that have waited for the HLS of a stream which no node has.
func (l HLS) Absent(ctx context.Context, name string) error {
	return cmp.Or(context.Cause(ctx), l.hub.cfg.absent(name))
}
