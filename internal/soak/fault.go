package soak

import (
	"fmt"
	"strings"
	"sync"
)

// A wrongError says that something came that should not have: a byte, a frame, an answer. Nothing excuses it, not even
// a restart; all other errors are excused when the server was being restarted.
type wrongError struct{ text string }

func (e *wrongError) Error() string { return e.text }

func wrong(format string, args ...any) error { return &wrongError{fmt.Sprintf(format, args...)} }

// A statusError is an answer with a status that was not wanted.
type statusError struct {
	what   string
	status int
	text   string // the beginning of what the server said
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: status %d: %s", e.what, e.status, strings.TrimSpace(e.text))
}

// maxFaults is how many faults are told in full. Those that follow are most often the same.
const maxFaults = 20

// faults collects what was wrong. Any goroutine may add to it.
type faults struct {
	mu    sync.Mutex
	texts []string // 0 ≤ len(texts) ≤ min(count, maxFaults)
	count int
}

func (f *faults) add(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count++; len(f.texts) < maxFaults {
		f.texts = append(f.texts, fmt.Sprintf(format, args...))
	}
}

// lead puts before all others what explains them.
func (f *faults) lead(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	f.texts = append([]string{fmt.Sprintf(format, args...)}, f.texts[:min(len(f.texts), maxFaults-1)]...)
}

// list returns what was added, and how much more there was.
func (f *faults) list() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := append([]string(nil), f.texts...)
	if more := f.count - len(f.texts); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return list
}

func (f *faults) any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count > 0
}
