package soak

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A refusal that passes is no fault, one that lasts is.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := patience{status: 409}
		taken, other := &statusError{status: 409}, errors.New("other")
		for _, step := range []struct {
			after     time.Duration
			err, want error
		}{
			{0, taken, errLater},
			{refusalPatience - 1, taken, errLater},
			{1, taken, taken},
			{0, other, other},
			{0, taken, errLater},
			{0, nil, nil},
			{refusalPatience, taken, errLater},
			{0, &statusError{status: 500}, nil},
		} {
			time.Sleep(step.after)
			got := p.with(step.err)
			if step.want == nil {
				step.want = step.err
			}
			if got != step.want {
				t.Errorf("%v after %v: %v, want %v", step.err, step.after, got, step.want)
			}
		}
	})
}
