package leaktest

import (
	"runtime"
	"strings"
)

// goroutines returns the stacks of the goroutines that the tests have left running. It leaves out
// the goroutines of the caller, the runtime and the test framework.
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
	for _, stack := range all[1:] { // the first stack is the caller's
		if !foreign(stack) {
			left = append(left, stack)
		}
	}
	return left
}

// foreign reports whether a stack belongs to the runtime or the test framework. It checks the
// function that started the goroutine. For the goroutine that passes signals to os/signal, it
// checks the function that runs.
func foreign(stack string) bool {
	if strings.Contains(stack, "\nos/signal.loop(") {
		return true
	}
	_, creator, found := strings.Cut(stack, "\ncreated by ")
	if !found {
		// This is the main goroutine or a goroutine of the runtime. No go statement starts these.
		return true
	}
	for _, ours := range []string{"runtime.", "testing.", "internal/fuzz."} {
		if strings.HasPrefix(creator, ours) {
			return true
		}
	}
	return false
}
