package frame

import (
	"errors"
	"os"
	"time"
)

// patience bounds how long the parts of a frame may take. A deadline costs a clock and a timer, so there is none for what
// has arrived already.
//
// Invariants:
//
//	armed: conn's read deadline is due, which is when part must be complete
//	due is zero unless part has been waited for and is not complete
type patience struct {
	conn   interface{ SetReadDeadline(time.Time) error } // nil: patience has no end
	limits [parts]time.Duration                          // 0: none
	part   Part
	due    time.Time
	armed  bool
}

// arm is called before part is waited for.
func (p *patience) arm(part Part) error {
	limit := p.limits[part]
	if limit == 0 {
		return nil
	}
	if p.due.IsZero() {
		p.part, p.due = part, time.Now().Add(limit)
	}
	if err := p.conn.SetReadDeadline(p.due); err != nil {
		return err
	}
	p.armed = true
	return nil
}

// disarm gives the deadline back after the wait. That it fails says only that the connection is closed, as the next read
// will.
func (p *patience) disarm() {
	if p.armed {
		p.armed = false
		_ = p.conn.SetReadDeadline(time.Time{})
	}
}

// complete is called when a part of a frame has come.
func (p *patience) complete() {
	p.disarm()
	p.due = time.Time{}
}

// over says whether err came because the time for the part is over, and not because of a deadline that somebody else has
// set meanwhile.
func (p *patience) over(err error) bool {
	return p.armed && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(p.due)
}
