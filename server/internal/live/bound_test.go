package live

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A bound is rounded down, so that frames never wait longer than the viewer allows.
func TestParseBound(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		text   string
		want   time.Duration
		status int
	}{
		{"0s", 0, 0},
		{"99ms", 0, 0},
		{"100ms", 100 * ms, 0},
		{"0.2s", 200 * ms, 0},
		{"499ms", 200 * ms, 0},
		{"999999us", 500 * ms, 0},
		{"1s", time.Second, 0},
		{"1001ms", 0, 400},
		{"-1ms", 0, 400},
		{"200", 0, 400},
		{"", 0, 400},
	} {
		got, err := ParseBound(tt.text)
		if got != tt.want || (err != nil) != (tt.status != 0) ||
			err != nil && refuse.Status(err) != tt.status {
			t.Errorf("%q: %v, %v, want %v, status %d", tt.text, got, err, tt.want, tt.status)
		}
	}
}

// The time before publishing and the pause together do not exceed the bound, and a pause does not
// count as lag.
func TestPauseKeepsTheBound(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct{ latency, lag, bound, want time.Duration }{
		{50 * ms, 0, 0, 0},
		{50 * ms, 0, 200 * ms, 150 * ms},
		{0, 5 * time.Second, time.Second, time.Second},
		{300 * ms, 0, 200 * ms, 0},
		{50 * ms, 300 * ms, time.Second, 100 * ms},
	} {
		c := Config{Latency: tt.latency, LagTime: tt.lag}
		if got := c.pause(tt.bound); got != tt.want {
			t.Errorf("latency %v, lag %v, bound %v: %v, want %v", tt.latency, tt.lag, tt.bound,
				got, tt.want)
		}
	}
}
