package relay

import "testing"

func TestLimiter(t *testing.T) {
	l := NewLimiter(2)
	for i := range 3 {
		if got, want := l.Acquire(), i < 2; got != want {
			t.Errorf("holder %d: %v, want %v", i, got, want)
		}
	}
	if n := l.Held(); n != 2 {
		t.Errorf("%d holders", n)
	}
	l.Release()
	if !l.Acquire() {
		t.Error("a place that was released is not free")
	}
	empty := l.Close()
	l.Release()
	select {
	case <-empty:
		t.Error("empty with one holder")
	default:
	}
	if l.Acquire() {
		t.Error("it admits a holder after Close")
	}
	l.Release()
	<-empty
	<-l.Close() // again
	<-NewLimiter(1).Close()
}
