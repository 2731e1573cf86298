package outage

import (
	"errors"
	"fmt"
	"testing"
)

func TestNote(t *testing.T) {
	var o Outage
	refused := func(port int) error {
		return fmt.Errorf("dial tcp 127.0.0.1:%d: connection refused", port)
	}
	for i, step := range []struct {
		err  error
		news bool
	}{
		{nil, false},
		{refused(1), true}, {refused(23), false},
		{errors.New("NOAUTH Authentication required."), true},
		{refused(4), false}, {errors.New("NOAUTH Authentication required."), false},
		{nil, true}, {nil, false}, {refused(5), true},
	} {
		if o.Note(step.err) != step.news {
			t.Errorf("step %d: %v is news: %t", i, step.err, !step.news)
		}
	}
	var other Outage
	logged := 0
	for i := range 100 {
		if other.Note(errors.New(string(rune('A' + i)))) {
			logged++
		}
	}
	if logged != maxReasons {
		t.Errorf("%d reasons are logged", logged)
	}
}
