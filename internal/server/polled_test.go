//go:build linux || darwin

package server

import (
	"fmt"
	"testing"
)

func TestNextLook(t *testing.T) {
	const ms = 1_000_000
	for _, tt := range []struct {
		at, since, got int64
		bound          int64
		want           int64
	}{
		{at: 1003 * ms, since: 950 * ms, got: 1000, bound: 50 * ms, want: 1050 * ms},      // a tick within the bound
		{at: 1000 * ms, since: 950 * ms, got: 96 << 10, bound: 50 * ms, want: 1025 * ms},  // half the wait for twice as much
		{at: 1000 * ms, since: 950 * ms, got: 480 << 10, bound: 50 * ms, want: 1005 * ms}, // a tenth
		{at: 1000 * ms, since: 999 * ms, got: 480 << 10, bound: 50 * ms, want: 1001 * ms}, // a flood
	} {
		if got := nextLook(tt.at, tt.since, tt.got, 50*ms); got != tt.want {
			t.Errorf("%+v: %v", tt, fmt.Sprintf("%d ms", got/ms))
		}
	}
}
