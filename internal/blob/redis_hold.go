package blob

import (
	"context"
	"sync"
	"time"
)

// holdsPerKeep is how often a version is prolonged in the time that it is kept: three times in a row may fail.
const holdsPerKeep = 4

// A hold makes a version that was replaced stay while it is being sent, however long its client takes for a part of it.
// A client that takes nothing is cut by others, which ends the hold.
type hold struct {
	store *Redis
	key   string
	ctx   context.Context
	stop  context.CancelFunc

	mu    sync.Mutex // held while Redis is asked
	timer *time.Timer
	over  bool
}

// hold begins one. The call that ends its life is end.
func (s *Redis) hold(ctx context.Context, key string) *hold {
	h := &hold{store: s, key: key}
	h.ctx, h.stop = context.WithCancel(ctx)
	h.mu.Lock() // the timer may be quick
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(s.keep/holdsPerKeep, h.prolong)
	return h
}

// prolong leaves a version alone that was not replaced, which stays anyway (GT).
func (h *hold) prolong() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	h.store.rdb.Do(h.ctx, "PEXPIRE", h.key, h.store.keep.Milliseconds(), "GT") // if it fails, so will a read
	h.timer.Reset(h.store.keep / holdsPerKeep)
}

// end returns when Redis is not being asked any more.
func (h *hold) end() {
	h.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.timer.Stop()
}
