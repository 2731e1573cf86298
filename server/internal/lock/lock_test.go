//go:build invariants

package lock

import (
	"log/slog"
	"strings"
	"testing"
)

// A line that is logged while a mutex is held is reported, even if it is below the level of the
// log, or comes from a derived Logger.
func TestLogger(t *testing.T) {
	var reports []string
	before := fail
	fail = func(report string) { reports = append(reports, report) }
	defer func() { fail = before }()
	log := Logger(slog.New(slog.DiscardHandler)).With("stream", "x").WithGroup("g")

	var mu, other Mutex
	log.Debug("no mutex is held")
	mu.Lock()
	other.Lock()
	other.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		log.Debug("another goroutine holds one")
	}()
	<-done
	if len(reports) != 0 {
		t.Errorf("without a mutex: %q", reports)
	}
	log.Debug("held")
	mu.Unlock()
	log.Debug("no mutex is held any more")
	if mu.TryLock() {
		log.Warn("held")
		mu.Unlock()
	}
	log.Warn("no mutex is held any more")
	if len(reports) != 2 || !strings.Contains(reports[0], "TestLogger") {
		t.Errorf("%d reports, want 2: %q", len(reports), reports)
	}
}
