package live

import (
	"context"

	"github.com/millrace-io/millrace/server/internal/conn/limit"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// Close refuses new publishers and viewers from now on. It ends all publishers, and all streams
// that wait for a publisher. Viewers stay connected until they have received all frames.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop(refuse.ErrShutdown)
	for _, s := range h.streams {
		if s.pause != nil {
			registrar{h}.endStream(s)
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

// AskToReconnect asks the publishers that support it to reconnect to another server. It then waits
// until they have left, or ctx ends. A publisher leaves at its next keyframe.
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
	for _, c := range asked {
		select {
		case <-c.ctx.Done():
		case <-ctx.Done():
			return
		}
	}
}

// Drain closes h. It waits until all publishers have been answered and all viewers have received
// their remaining frames. When ctx ends, it disconnects the remaining viewers.
func (h *Hub) Drain(ctx context.Context) {
	h.Close()
	empty := h.admitted.Close()
	if limit.AwaitContext(ctx, empty) != nil {
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

// cutViewers disconnects all viewers, and makes noteServed disconnect each new viewer.
func (h *Hub) cutViewers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cut = true
	for v := range h.served {
		v.transport.End(fanout.Drained)
	}
}

// AwaitRecorders waits until all publishers have left, and all recorders have received their frames
// and are closed. The caller must call Close first.
func (h *Hub) AwaitRecorders() {
	h.publishers.Wait()
	h.recording.Wait()
}
