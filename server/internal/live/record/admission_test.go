package record

import (
	"errors"
	"log/slog"
	"testing"
	"time"
)

// After an error, Admit is called again some seconds later. A refusal applies until the end of the
// stream. An end is reported once.
func TestAdmission(t *testing.T) {
	at, asked, ends := time.Unix(1e9, 0), 0, 0
	var err error
	end := func(_ string, bytes int64) {
		if ends++; bytes != 7 {
			t.Errorf("%d bytes are admitted, want 7", bytes)
		}
	}
	var a admission
	cfg := Config{
		now:   func() time.Time { return at },
		Admit: func(string) (func(string, int64), error) { asked++; return end, err },
	}
	admitted := func() bool { return a.isAdmitted(&cfg, "cam", slog.New(slog.DiscardHandler)) }
	check := func(what string, got, want bool, times int) {
		t.Helper()
		if got != want || asked != times {
			t.Errorf("%s: %v after %d questions, want %v after %d", what, got, asked, want, times)
		}
	}
	allowed := end
	end, err = nil, errors.New("away")
	check("away", admitted(), false, 1)
	check("at once", admitted(), false, 1)
	at = at.Add(retryAfter)
	err = nil
	check("refused", admitted(), false, 2)
	at = at.Add(time.Hour)
	check("later", admitted(), false, 2)
	a.end()
	end = allowed
	check("another stream", admitted(), true, 3)
	check("the same", admitted(), true, 3)
	a.bytes = 7
	a.end()
	a.end()
	if ends != 1 {
		t.Errorf("told of %d ends", ends)
	}
}
