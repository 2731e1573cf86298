package frame

import (
	"errors"
	"os"
	"time"
)

// A partDeadline limits the time that each part of a frame may take. It sets a deadline only if the
// Decoder must wait for bytes, because setting a deadline is slow.
type partDeadline struct {
	conn   interface{ SetReadDeadline(time.Time) error } // nil if there are no limits
	limits [parts]time.Duration                          // 0: no limit
	part   Part                                          // the part that due applies to
	// due is the time by which the part must be complete; zero if no limit is running.
	due   time.Time
	armed bool // conn's read deadline is set to due
}

// arm sets conn's read deadline before the Decoder waits for bytes of a header or payload.
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

// disarm clears conn's read deadline after a wait for bytes. It ignores the error: if conn is
// closed, the next read fails too.
func (p *partDeadline) disarm() {
	if p.armed {
		p.armed = false
		_ = p.conn.SetReadDeadline(time.Time{})
	}
}

// complete stops the time limit when a header or payload has arrived.
func (p *partDeadline) complete() {
	p.disarm()
	p.due = time.Time{}
}

// expired reports whether err means that a header or payload was late. It returns false if err
// comes from a deadline that the caller has set.
func (p *partDeadline) expired(err error) bool {
	return p.armed && errors.Is(err, os.ErrDeadlineExceeded) && !time.Now().Before(p.due)
}
