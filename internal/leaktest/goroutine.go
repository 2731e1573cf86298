package leaktest

import (
	"runtime"
	"strings"
)

// goroutines returns the stacks of those that the tests have left running: all but the caller's and those of the runtime
// and the test framework.
func goroutines() []string {
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
	var left []string
	for _, stack := range all[1:] { // the first is the caller's
		if !foreign(stack) {
			left = append(left, stack)
		}
	}
	return left
}

// foreign reports whether a stack is of the runtime or of the test framework: by the function that started the goroutine,
// or, for the one that feeds signals to os/signal, by the function it is for.
func foreign(stack string) bool {
	if strings.Contains(stack, "\nos/signal.loop(") {
		return true
	}
	_, creator, found := strings.Cut(stack, "\ncreated by ")
	if !found {
		return true // the main goroutine and those of the runtime that are never created by anybody
	}
	for _, ours := range []string{"runtime.", "testing.", "internal/fuzz."} {
		if strings.HasPrefix(creator, ours) {
			return true
		}
	}
	return false
}
