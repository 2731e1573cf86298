package limit

import (
	"context"
	"errors"
	"testing"
)

func TestLimiter(t *testing.T) {
	full, ending := errors.New("full"), errors.New("ending")
	l := New(2, full, ending)
	for i, want := range []error{nil, nil, full} {
		if err := l.Acquire(); err != want {
			t.Errorf("holder %d: %v, want %v", i, err, want)
		}
	}
	if held, refused := l.Held(), l.Refused(); held != 2 || refused != 1 {
		t.Errorf("%d holders, %d refused, want 2 and 1", held, refused)
	}
	l.Release()
	if err := l.Acquire(); err != nil {
		t.Errorf("a place that was released is not free: %v", err)
	}
	if err := l.Force(); err != nil || l.Held() != 3 {
		t.Errorf("%d holders, want one above the limit: %v", l.Held(), err)
	}
	if err := l.Acquire(); err != full {
		t.Errorf("above the limit: %v, want %v", err, full)
	}
	l.Release()
	fuller := errors.New("fuller")
	for _, tt := range []struct {
		limit int
		want  error
	}{{3, nil}, {3, fuller}, {1, fuller}} {
		l.SetLimit(tt.limit, fuller)
		if err := l.Acquire(); err != tt.want {
			t.Errorf("with a limit of %d: %v, want %v", tt.limit, err, tt.want)
		}
	}
	l.Release()
	empty := l.Close()
	if err := l.Force(); err != ending {
		t.Errorf("after Close: %v, want %v", err, ending)
	}
	l.Release()
	select {
	case <-empty:
		t.Error("empty with one holder")
	default:
	}
	if err := l.Acquire(); err != ending {
		t.Errorf("after Close: %v, want %v", err, ending)
	}
	l.Release()
	<-empty
	<-l.Close() // a second call
	<-New(1, full, ending).Close()
}

// A channel that is closed counts, even if the context has ended as well.
func TestAwaitContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	if err := AwaitContext(ctx, done); err != context.Canceled {
		t.Errorf("the context has ended: %v", err)
	}
	close(done)
	for range 100 { // a select chooses at random
		if err := AwaitContext(ctx, done); err != nil {
			t.Fatalf("both have ended: %v", err)
		}
	}
}
