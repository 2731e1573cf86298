//go:build race

package millrace_test

const raceEnabled = true
