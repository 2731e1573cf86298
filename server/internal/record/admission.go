package record

import "time"

// An admission is what Config.Admit has said of a stream since it began. It belongs to the writer goroutine.
type admission struct {
	asked bool // and answered
	askAt time.Time
	ended func(reason string, bytes int64) // nil: it is not recorded
	bytes int64                            // that were written
}

// admitted reports whether r is to be recorded. It asks at the beginning, and after an error again some seconds later.
func (r *Recording) admitted() bool {
	a := &r.admission
	if !a.asked && !r.a.cfg.now().Before(a.askAt) {
		var err error
		if a.ended, err = r.a.cfg.Admit(r.name); err != nil {
			a.askAt = r.a.cfg.now().Add(retryAfter)
			r.log.Warn("it is not known whether the stream is to be recorded: it is not, and that is asked again", "reason", err)
		}
		a.asked = err == nil
	}
	return a.ended != nil
}

// end ends what was admitted.
func (a *admission) end() {
	if a.ended != nil {
		a.ended("the stream has ended", a.bytes)
	}
	*a = admission{}
}
