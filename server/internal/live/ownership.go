package live

import (
	"context"

	"github.com/millrace-io/millrace/server/internal/live/hlslive"
)

// EpochHeader is the response header in which the owner of a stream sends its epoch to another
// node. The epoch is a number that identifies the sender's ownership of the stream.
const EpochHeader = "Millrace-Epoch"

// owns reports whether this node owns the named stream. epoch is the epoch of the lease; see
// [Lease].
func (h *Hub) owns(name string) (epoch uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.streams[name]; s != nil && s.lease != nil {
		return s.lease.Epoch(), true
	}
	return 0, false
}

// isWanted reports whether the named stream has viewers here, or had viewers until a short time
// ago. If this node owns the stream, isWanted returns false.
func (h *Hub) isWanted(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.streams[name]
	switch {
	case h.ends.Err() != nil:
		return false
	case s == nil:
		return len(h.waiting[name]) > 0
	}
	return s.lease == nil && h.unwatchedFor(s) < h.pullIdle
}

func (h *Hub) want(name string) {
	if h.cfg.Cluster != nil && h.isWanted(name) {
		h.cfg.Cluster.Want(name)
	}
}

// revoke ends this node's ownership of s. It disconnects the publisher, and stops recording s,
// making HLS for s, and sending s to other nodes. The caller must hold h.mu.
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
	s.endPush()
	if w := h.hls.get(s); w != nil {
		h.hls.end(w)
		w.Fail(hlslive.ErrElsewhere)
	}
}

// push calls Config.Push for s, unless it has already been called for s, or another node owns s. The
// URLs in to come from the terms of the publisher.
func (h *Hub) push(s *stream, to []string) {
	if h.cfg.Push == nil {
		return
	}
	h.mu.Lock()
	if s.stopPush != nil || h.cfg.Cluster != nil && s.lease == nil {
		h.mu.Unlock()
		return
	}
	ctx, stop := context.WithCancel(h.ends)
	s.stopPush = stop
	h.mu.Unlock()
	h.cfg.Push(ctx, s.name, to)
}

// endPush ends the context of Config.Push. The caller must hold Hub.mu.
func (o *ownership) endPush() {
	if o.stopPush != nil {
		o.stopPush()
		o.stopPush = nil
	}
}

// giveUp releases the lease of s, which has ended. If the lease is current, other nodes and HLS
// players still get the remaining frames. Otherwise another node may own s, so giveUp stops sending
// s to other nodes. The caller must hold h.mu.
func (h *Hub) giveUp(s *stream) {
	if s.lease == nil {
		return
	}
	if !s.lease.Current() {
		s.cutPeers()
	} else if w := h.hls.get(s); w != nil {
		w.Disown()
	}
	s.lease.Release()
	s.lease = nil
}

// release gives up the given lease of the named stream, unless the publisher of the stream or the
// waiting successor uses this lease. The lease may be nil. The caller must hold h.mu.
func (h *Hub) release(name string, lease Lease) {
	if s := h.streams[name]; lease != nil && (s == nil || s.lease != lease &&
		(s.successor == nil || s.successor.lease != lease)) {
		lease.Release()
	}
}
