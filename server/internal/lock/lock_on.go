//go:build invariants

package lock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
)

// held counts the mutexes that each goroutine holds.
var held = struct {
	mu sync.Mutex
	by map[uint64]int
}{by: make(map[uint64]int)}

func add(id uint64, n int) {
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.by[id] += n; held.by[id] == 0 {
		delete(held.by, id)
	}
}

// goroutineID returns the ID of the calling goroutine. It parses a stack trace, because package
// runtime does not provide the ID in any other way.
func goroutineID() uint64 {
	var b [64]byte
	text := b[:runtime.Stack(b[:], false)] // "goroutine 7 [running]: ..."
	id, err := strconv.ParseUint(string(bytes.Fields(text)[1]), 10, 64)
	if err != nil {
		panic(err)
	}
	return id
}

// A Mutex is a sync.Mutex that tracks which goroutine holds it.
type Mutex struct {
	mu     sync.Mutex
	holder uint64
}

func (m *Mutex) Lock() {
	m.mu.Lock()
	m.locked()
}

func (m *Mutex) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	m.locked()
	return true
}

func (m *Mutex) locked() {
	m.holder = goroutineID()
	add(m.holder, 1)
}

func (m *Mutex) Unlock() {
	add(m.holder, -1)
	m.mu.Unlock()
}

// fail aborts the process. It panics in another goroutine, so that no caller can recover the panic.
// Tests replace fail.
var fail = func(report string) {
	go panic(report)
	select {}
}

// Logger returns a logger that writes to l. The logger aborts the process if the calling goroutine
// holds a mutex of this package, even if the level of the message is disabled.
func Logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return nil
	}
	if _, ok := l.Handler().(handler); ok {
		return l
	}
	return slog.New(handler{l.Handler()})
}

type handler struct{ slog.Handler }

// Enabled aborts the process if the calling goroutine holds a mutex. A Logger calls Enabled first
// for each message, even if the level of the message is disabled.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	id := goroutineID()
	held.mu.Lock()
	n := held.by[id]
	held.mu.Unlock()
	if n > 0 {
		fail(fmt.Sprintf("lock: the log is used while %d mutexes are held, at:\n%s", n,
			debug.Stack()))
	}
	return h.Handler.Enabled(ctx, level)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }
