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

// add adds n to the number of mutexes that goroutine id holds.
func add(id uint64, n int) {
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.by[id] += n; held.by[id] == 0 {
		delete(held.by, id)
	}
}

// goroutine returns the ID of the calling goroutine. It reads the ID from the stack trace, because
// nothing else contains it.
func goroutine() uint64 {
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
	m.holder = goroutine()
	add(m.holder, 1)
}

func (m *Mutex) Unlock() {
	add(m.holder, -1)
	m.mu.Unlock()
}

// fail aborts the process. It does not panic, because a panic could be recovered. Tests replace it.
var fail = func(report string) {
	go panic(report)
	select {}
}

// Logger returns a logger like l that aborts the process if the calling goroutine holds a mutex of
// this package, regardless of the level of the message.
func Logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return nil
	}
	if _, ok := l.Handler().(handler); ok {
		return l
	}
	return slog.New(handler{l.Handler()})
}

// A handler checks the goroutines that call it.
type handler struct{ slog.Handler }

// Enabled does the check, because it is called first for each message.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	id := goroutine()
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
