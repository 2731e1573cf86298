//go:build !race

package millrace_test

const raceEnabled = false
