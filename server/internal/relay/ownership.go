package relay

import (
	"context"
	"slices"

	"github.com/millrace-io/millrace/server/internal/relay/fanout"
	"github.com/millrace-io/millrace/server/internal/relay/hlslive"
)

// headerEpoch is the header that tells another node with which epoch this one owns what it sends.
const headerEpoch = "Millrace-Epoch"

// owns reports whether this node owns the stream of that name, with which epoch: 0 if that is not known yet.
func (h *Hub) owns(name string) (epoch uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.streams[name]; s != nil && s.lease != nil {
		return s.lease.Epoch(), true
	}
	return 0, false
}

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

// An ownership is what a stream is to the nodes of a cluster.
type ownership struct {
	lease      Lease                // nil if this node does not own the stream, or is alone
	epoch      uint64               // the greatest one of those that have fed it and are over, or are pulled
	peers      map[*viewer]struct{} // other nodes that read it
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
