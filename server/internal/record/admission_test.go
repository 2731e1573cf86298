package record

import (
	"errors"
	"log/slog"
	"testing"
	"time"
)

// After an error it is asked again some seconds later, a refusal counts up to the end of the stream, and an end is told once.
func TestAdmission(t *testing.T) {
	at, asked, ends := time.Unix(1e9, 0), 0, 0
	var err error
	end := func(_ string, bytes int64) {
		if ends++; bytes != 7 {
			t.Errorf("%d bytes", bytes)
		}
	}
	r := newRecording(&Archive{log: slog.New(slog.DiscardHandler), cfg: Config{
		now:   func() time.Time { return at },
		Admit: func(string) (func(string, int64), error) { asked++; return end, err },
	}}, "cam")
	check := func(what string, got, want bool, times int) {
		t.Helper()
		if got != want || asked != times {
			t.Errorf("%s: %v after %d questions, want %v after %d", what, got, asked, want, times)
		}
	}
	allowed := end
	end, err = nil, errors.New("away")
	check("away", r.admitted(), false, 1)
	check("at once", r.admitted(), false, 1)
	at = at.Add(retryAfter)
	err = nil
	check("refused", r.admitted(), false, 2)
	at = at.Add(time.Hour)
	check("later", r.admitted(), false, 2)
	r.admission.end()
	end = allowed
	check("another stream", r.admitted(), true, 3)
	check("the same", r.admitted(), true, 3)
	r.admission.bytes = 7
	r.admission.end()
	r.admission.end()
	if ends != 1 {
		t.Errorf("told of %d ends", ends)
	}
}
