package record

import (
	"log/slog"
	"time"
)

// retryAfter is the pause after an error of Config.Admit or of the disk.
const retryAfter = 5 * time.Second

// An admission is what Config.Admit has said of a stream since it began. It belongs to the writer
// goroutine.
type admission struct {
	asked bool // and answered
	askAt time.Time
	ended func(reason string, bytes int64) // nil: it is not recorded
	bytes int64                            // that were written
}

// admitted reports whether the stream is recorded. It asks cfg.Admit at the beginning, and
// retryAfter after an error again.
func (a *admission) admitted(cfg *Config, stream string, log *slog.Logger) bool {
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

// end ends an admitted recording.
func (a *admission) end() {
	if a.ended != nil {
		a.ended("the stream has ended", a.bytes)
	}
	*a = admission{}
}
