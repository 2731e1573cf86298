package frame

import (
	"errors"
	"os"
	"time"
)

// A partDeadline limits how long each part of a frame may take. It sets no deadline for buffered
// bytes, because a deadline costs a look at the clock and a timer.
type partDeadline struct {
	conn   interface{ SetReadDeadline(time.Time) error } // nil if there are no limits
	limits [parts]time.Duration                          // 0: no limit
	part   Part                                          // the part that is waited for
	// When part must be complete; zero unless it is waited for.
	due   time.Time
	armed bool // conn's read deadline is due
}

// arm is called before the Decoder waits for part.
func (p *partDeadline) arm(part Part) error {
	if p.limits[part] == 0 {
		return nil
	}
	if p.due.IsZero() {
		p.part, p.due = part, time.Now().Add(p.limits[part])
	}
	if err := p.conn.SetReadDeadline(p.due); err != nil {
		return err
	}
	p.armed = true
	return nil
}

// disarm clears conn's deadline after the wait. It fails only if conn is closed, which the next
// read reports.
func (p *partDeadline) disarm() {
	if p.armed {
		p.armed = false
		_ = p.conn.SetReadDeadline(time.Time{})
	}
}

// complete is called when the part is complete.
func (p *partDeadline) complete() {
	p.disarm()
	p.due = time.Time{}
}

// expired reports whether err came because the time for the part is over, not because of a deadline
// that the caller has set meanwhile.
func (p *partDeadline) expired(err error) bool {
	return p.armed && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(p.due)
}
