package nettest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// A BlockingLog is a slog.Handler that can block, as a full pipe does.
type BlockingLog struct {
	slog.Handler
	*logState
}

// A logState records whether a BlockingLog blocks, and which messages had to wait. A BlockingLog
// shares it with the handlers that WithAttrs and WithGroup return.
type logState struct {
	mu      sync.Mutex
	blocked chan struct{} // closed when the log continues; nil if the log does not block
	stuck   []string      // messages that have waited
}

// NewBlockingLog returns a BlockingLog that passes records to h.
func NewBlockingLog(h slog.Handler) *BlockingLog {
	return &BlockingLog{Handler: h, logState: new(logState)}
}

func (b *BlockingLog) Handle(ctx context.Context, r slog.Record) error {
	b.mu.Lock()
	blocked := b.blocked
	if blocked != nil {
		b.stuck = append(b.stuck, r.Message)
	}
	b.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	return b.Handler.Handle(ctx, r)
}

func (b *BlockingLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &BlockingLog{b.Handler.WithAttrs(attrs), b.logState}
}

func (b *BlockingLog) WithGroup(name string) slog.Handler {
	return &BlockingLog{b.Handler.WithGroup(name), b.logState}
}

// Block makes the log block until unblock is called.
func (b *BlockingLog) Block() (unblock func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	blocked := make(chan struct{})
	b.blocked = blocked
	return sync.OnceFunc(func() {
		b.mu.Lock()
		b.blocked = nil
		b.mu.Unlock()
		close(blocked)
	})
}

// Holds reports whether the log has blocked a message that contains substr.
func (b *BlockingLog) Holds(substr string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range b.stuck {
		if strings.Contains(line, substr) {
			return true
		}
	}
	return false
}
