package leak

import (
	"runtime"
	"strings"
)

// Goroutines returns the stacks of the running goroutines, by number. It ignores the caller, and
// the goroutines of the runtime and the test framework.
func Goroutines() map[string]string {
	buf := make([]byte, 64<<10)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := strings.Split(strings.TrimSpace(string(buf)), "\n\n")
	left := map[string]string{}
	for _, stack := range all[1:] { // the first stack is the caller's
		if !foreign(stack) {
			number, _, _ := strings.Cut(strings.TrimPrefix(stack, "goroutine "), " ")
			left[number] = stack
		}
	}
	return left
}

// foreign reports whether a goroutine belongs to the runtime, os/signal or the test framework.
func foreign(stack string) bool {
	if strings.Contains(stack, "\nos/signal.loop(") {
		return true
	}
	_, creator, found := strings.Cut(stack, "\ncreated by ")
	if !found {
		// Only the main goroutine and goroutines of the runtime have no creator.
		return true
	}
	for _, ours := range []string{"runtime.", "testing.", "internal/fuzz."} {
		if strings.HasPrefix(creator, ours) {
			return true
		}
	}
	return false
}
