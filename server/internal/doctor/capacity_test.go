package doctor

import (
	"errors"
	"math"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The costs of a write and of a byte follow from two measurements, and the viewers from the costs.
func TestCapacity(t *testing.T) {
	const write, perGB, rate = 8e-6, 0.25, 250_000
	cost := func(bound time.Duration) float64 { return write/bound.Seconds() + perGB*rate/1e9 }
	c := capacity([2]float64{cost(trialBounds[0]), cost(trialBounds[1])}, rate, 8*rate)
	if math.Abs(c.WriteNS-write*1e9) > 1 || math.Abs(c.PerGB-perGB) > 1e-6 ||
		len(c.Bounds) != 3 {
		t.Fatalf("%+v, want %v s a write and %v s a GB", c, write, perGB)
	}
	for _, b := range c.Bounds {
		want := float64(runtime.GOMAXPROCS(0)) / cost(b.Latency)
		if math.Abs(float64(b.Viewers)-want) > 1 {
			t.Errorf("%v: %d viewers, want %.0f", b.Latency, b.Viewers, want)
		}
	}
}

// On a busy machine a measurement may be off so far that a cost would be negative.
func TestCapacityIsNotNegative(t *testing.T) {
	for _, costs := range [][2]float64{{1e-4, 2e-4}, {2e-4, 1e-6}, {0, 0}} {
		c := capacity(costs, 250_000, 2_000_000)
		if c.WriteNS < 0 || c.PerGB < 0 {
			t.Errorf("%v: %+v", costs, c)
		}
		for _, b := range c.Bounds {
			if b.Viewers < 0 {
				t.Errorf("%v: %+v", costs, b)
			}
		}
	}
}

// If the server cannot start, the error contains its messages.
func TestMeasureWithoutAServer(t *testing.T) {
	trial := Trial{Viewers: 1, BitRate: 200_000, Time: time.Second}
	trial.Server = func(...string) *exec.Cmd { return &exec.Cmd{Err: errors.New("no program")} }
	if _, err := Measure(t.Context(), trial); err == nil ||
		!strings.Contains(err.Error(), "no program") {
		t.Errorf("%v, want no program", err)
	}
	trial.Server = func(...string) *exec.Cmd { return exec.Command("go", "no-such-command") }
	if _, err := Measure(t.Context(), trial); err == nil ||
		!strings.Contains(err.Error(), "no-such-command") {
		t.Errorf("%v, want the message of the command", err)
	}
}
