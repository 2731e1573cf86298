package live

import (
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
)

// EpochHeader is the HTTP header with the epoch of the node that sends a stream to another node.
const EpochHeader = "Millrace-Epoch"

// owns reports whether this node owns the stream with that name, and returns the epoch of the
// ownership. The epoch is 0 if it is not known yet.
func (h *Hub) owns(name string) (epoch uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.streams[name]; s != nil && s.lease != nil {
		return s.lease.Epoch(), true
	}
	return 0, false
}

// wanted implements Peers.Wanted.
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
	return s.lease == nil && h.unwatched(s) < h.pullIdle
}

// want asks the cluster for a stream, if viewers here want it and this node does not own it. See
// Peers.Wanted.
func (h *Hub) want(name string) {
	if h.cfg.Cluster != nil && h.wanted(name) {
		h.cfg.Cluster.Want(name)
	}
}

// revoke ends this node's ownership of s, and ends the publisher, the recording and the HLS of s.
// mu is held.
func (h *Hub) revoke(s *stream) {
	if s.successor != nil && s.successor.lease == s.lease {
		s.successor.cancel(errMoved)
		s.successor = nil
	}
	s.epoch = max(s.epoch, s.lease.Epoch())
	s.lease = nil
	if s.pause == nil {
		s.publisher.cancel(errMoved)
	}
	s.cutPeers()
	if s.stopRecord != nil {
		s.stopRecord()
		s.stopRecord = nil
	}
	if w := h.hls.of(s); w != nil {
		h.hls.end(w)
		w.Fail(hlslive.ErrElsewhere)
	}
}

// giveUp releases the lease of s, which has ended. If the lease was current, giveUp makes sure that
// other nodes and players still get the remaining frames of s. mu is held.
func (h *Hub) giveUp(s *stream) {
	if s.lease == nil {
		return
	}
	if !s.lease.Current() {
		s.cutPeers()
	} else if w := h.hls.of(s); w != nil {
		w.Disown()
	}
	s.lease.Release()
	s.lease = nil
}

// release releases l, unless a publisher here uses l. mu is held.
func (h *Hub) release(name string, l Lease) {
	if s := h.streams[name]; l != nil && (s == nil || s.lease != l &&
		(s.successor == nil || s.successor.lease != l)) {
		l.Release()
	}
}
