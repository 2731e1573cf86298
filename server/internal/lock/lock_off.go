//go:build !invariants

package lock

import (
	"log/slog"
	"sync"
)

// A Mutex is a sync.Mutex.
type Mutex = sync.Mutex

// Logger returns l.
func Logger(l *slog.Logger) *slog.Logger { return l }
