package soak

import "testing"

// A server's answer may end with a line's end, which would tear a list of faults.
func TestStatusErrorIsOneLine(t *testing.T) {
	const want = "PUT: status 503: the store cannot be reached"
	if got := (&statusError{"PUT", 503, "the store cannot be reached\n"}).Error(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
