package broadcast_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	f()
}

func TestOptionsOutOfRangePanic(t *testing.T) {
	for _, test := range []struct {
		want string
		f    func()
	}{
		{"broadcast: MaxBytes(0) is below 1", func() { broadcast.MaxBytes(0) }},
		{"broadcast: MaxFrames(-1) is below 1", func() { broadcast.MaxFrames(-1) }},
		{"broadcast: MaxFrames(16777217) is above 16777216",
			func() { broadcast.MaxFrames(1<<24 + 1) }},
		{"broadcast: Latency(-1) is below 0", func() { broadcast.Latency(-1) }},
		{"broadcast: MaxLagBytes(-1) is below 0", func() { broadcast.MaxLagBytes(-1) }},
		{"broadcast: MaxLagFrames(-1) is below 0", func() { broadcast.MaxLagFrames(-1) }},
		{"broadcast: MaxLagTime(-1) is below 0", func() { broadcast.MaxLagTime(-1) }},
		{"broadcast: BatchBytes(0) is below 1", func() { broadcast.BatchBytes(0) }},
	} {
		mustPanic(t, test.want, test.f)
	}
}

func TestAfterClose(t *testing.T) {
	r := broadcast.New()
	c, open := r.Cursor(), r.Cursor()
	publish(t, r, "k", true)
	c.Close()
	c.Close() // a second Close has no effect
	var dst millrace.Chain
	if b, err := c.Take(&dst); err != broadcast.ErrClosed || b != (broadcast.Batch{}) ||
		dst.Len() != 0 {
		t.Errorf("Take after Cursor.Close = %+v, %v", b, err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error("Close after Close:", err)
		}
	}
	p, pre := chainOf("late"), chainOf("late")
	if err := r.Publish(&p, broadcast.Frame{}); err != broadcast.ErrClosed {
		t.Errorf("Publish after Close = %v", err)
	}
	r.SetPreamble(&pre)
	if p.Len() != 0 || pre.Len() != 0 {
		t.Error("a closed ring did not take ownership")
	}
	if s, _ := take(t, open); s != "k" {
		t.Errorf("Take after Close = %q", s)
	}
	if _, err := open.Take(&dst); err != io.EOF {
		t.Errorf("Take on a drained cursor = %v", err)
	}
	open.Close()
	if _, err := open.Take(&dst); err != broadcast.ErrClosed {
		t.Errorf("Take after both = %v", err)
	}
	w := r.Watch()
	<-w.C
	w.Stop()
	w.Stop() // a second Stop has no effect
	check(t, r)
}

// A chain that panics must not leave the ring locked.
func TestNilChainsPanicAndLeaveTheRingUsable(t *testing.T) {
	r := broadcast.New()
	c := r.Cursor()
	for _, f := range []func(){
		func() { _ = r.Publish(nil, broadcast.Frame{}) },
		func() { r.SetPreamble(nil) },
		func() { _, _ = c.Take(nil) },
	} {
		mustPanic(t, "nil pointer", f)
	}
	publish(t, r, "k", true)
	if s, _ := take(t, c); s != "k" {
		t.Errorf("Take = %q, want k", s)
	}
	c.Close()
	r.Close()
}
