package frame

import (
	"errors"
	"os"
	"time"
)

// A partDeadline limits the time that each part of a frame may take. For buffered bytes it sets no
// deadline, because that would cost a reading of the clock and a timer.
type partDeadline struct {
	conn   interface{ SetReadDeadline(time.Time) error } // nil if there are no limits
	limits [parts]time.Duration                          // 0: no limit
	part   Part                                          // the part that the Decoder waits for
	// The time at which part must be complete; zero unless the Decoder waits for part.
	due   time.Time
	armed bool // conn's read deadline is set to due
}

// arm sets the deadline for part. The Decoder calls it before it waits for part.
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

// complete ends the time limit of the part. The Decoder calls it when the part is complete.
func (p *partDeadline) complete() {
	p.disarm()
	p.due = time.Time{}
}

// expired reports whether err came because the time for the part is over. It returns false if err
// came because of an earlier deadline that the caller has set meanwhile.
func (p *partDeadline) expired(err error) bool {
	return p.armed && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(p.due)
}
