package live

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// Close refuses new publishers and viewers from now on, and ends all publishers and all streams that wait for one.
// Viewers stay until they have everything.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop(refuse.ErrShutdown)
	for _, s := range h.streams {
		if s.pause != nil {
			registrar{h}.end(s)
		}
	}
	h.admitted.Close()
	for _, list := range h.waiting {
		for _, w := range list {
			w.err = refuse.ErrShutdown
			close(w.done)
		}
	}
	clear(h.waiting)
}

// reconnectWait is how long a publisher may take to leave that was asked to connect again: it goes on up to its next key
// frame, and encoders are told to send one every two seconds.
const reconnectWait = 2 * time.Second

// AskToReconnect asks the publishers that can to connect again, to a server that goes on, and waits until they have left:
// for reconnectWait, and no longer than ctx.
func (h *Hub) AskToReconnect(ctx context.Context) {
	var asked []*claim
	h.mu.Lock()
	for _, s := range h.streams {
		if c := s.publisher; s.pause == nil && c.reconnects.Load() {
			c.leaves.Store(true)
			asked = append(asked, c)
		}
	}
	h.mu.Unlock()
	if len(asked) == 0 {
		return
	}
	h.log.Info("publishers are asked to connect again", "publishers", len(asked))
	ctx, cancel := context.WithTimeout(ctx, reconnectWait)
	defer cancel()
	for _, c := range asked {
		select {
		case <-c.ctx.Done():
		case <-ctx.Done():
			return
		}
	}
}

// Drain closes h, and waits until all publishers have been answered and all viewers have got what is kept for them.
// Viewers that are still there when ctx ends are disconnected.
func (h *Hub) Drain(ctx context.Context) {
	h.Close()
	empty := h.admitted.Close()
	select {
	case <-empty:
	case <-ctx.Done():
		h.log.Warn("time is up, viewers are disconnected", "viewers", h.Viewers())
		h.cutViewers()
		limit.Await(h.log, "viewers", empty)
	}
	answered := make(chan struct{})
	go func() {
		h.AwaitRecorders()
		close(answered)
	}()
	limit.Await(h.log, "publishers", answered)
}

// cutViewers ends all viewers that are served, and those that are about to be.
func (h *Hub) cutViewers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = true
	for v := range h.served {
		v.transport.End(fanout.Drained)
	}
}

// AwaitRecorders waits until no publisher is there any more and what they sent has been given to the recorders, all of
// which are closed. It is for the time after Close.
func (h *Hub) AwaitRecorders() {
	h.publishers.Wait()
	h.recording.Wait()
}
