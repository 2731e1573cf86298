package record

import (
	"log/slog"
	"time"
)

// retryAfter is the time before the next attempt after Config.Admit or the disk has returned an
// error.
const retryAfter = 5 * time.Second

// An admission holds the decision of Config.Admit about a stream. Config.Admit decides again when a
// new recording begins. Only the writer goroutine uses the admission.
type admission struct {
	asked bool // Admit was called and returned no error
	askAt time.Time
	ended func(reason string, bytes int64) // nil if the stream is not recorded
	bytes int64
}

// isAdmitted reports whether the stream is to be recorded. It calls cfg.Admit when a recording
// begins. If cfg.Admit fails, the stream is not recorded, and isAdmitted calls cfg.Admit again
// after retryAfter.
func (a *admission) isAdmitted(cfg *Config, stream string, log *slog.Logger) bool {
	if !a.asked && !cfg.now().Before(a.askAt) {
		var err error
		if a.ended, err = cfg.Admit(stream); err != nil {
			a.askAt = cfg.now().Add(retryAfter)
			log.Warn("it is not known whether the stream is to be recorded: it is not, and that is asked again", "reason", err)
		}
		a.asked = err == nil
	}
	return a.ended != nil
}

func (a *admission) end() {
	if a.ended != nil {
		a.ended("the stream has ended", a.bytes)
	}
	*a = admission{}
}
