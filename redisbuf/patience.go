package redisbuf

import (
	"context"
	"net"
	"time"
)

const (
	// glance is how long a call looks away from a context that can be cancelled. Most calls are over by then, and for the
	// others a watch is set, which allocates.
	glance = 20 * time.Millisecond

	// lookAgain is how long a wait lasts before the connection is looked at once more. That a server had closed its end before
	// the request was written wakes nobody who waits for the reply (see vectored).
	lookAgain = 200 * time.Millisecond

	// slack is how much more than the timeout a deadline gives, as a part of it, so that the next calls need not set one.
	slack = 4
)

// longAgo is a deadline that ends whatever waits.
var longAgo = time.Unix(1, 0)

// A patience sets a connection's deadlines: a call ends when its context does, or when no byte has moved for the timeout.
//
// Invariants, while a call is under way and it waits with a deadline:
//
//	until ≤ now + timeout + timeout/slack
//	set ≤ until, unless there is no timeout
type patience struct {
	conn    net.Conn
	resumes bool          // what a deadline has ended can be called again: not so the Write of a TLS connection
	timeout time.Duration // 0 waits for as long as the context allows
	until   time.Time     // when the timeout is over; zero if there is none
	set     time.Time     // the connection's deadline, which may be earlier; zero if it has none
	moved   bool          // a byte has, since until was set

	ctx      context.Context
	glancing bool
	unwatch  func() bool // or nil
}

// begin is called before a call waits for the first time.
func (p *patience) begin(ctx context.Context, timeout time.Duration) error {
	p.ctx, p.timeout, p.moved, p.glancing = ctx, timeout, false, false
	if ctx.Done() != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.glancing = p.resumes
		if !p.glancing {
			p.watch()
		}
		return p.setDeadline()
	}
	now := time.Now()
	if left := p.until.Sub(now); timeout == 0 && !p.until.IsZero() || timeout > 0 && (left < timeout || left > timeout+timeout/slack) {
		return p.setDeadline()
	}
	fits := p.set.Equal(p.until) // and is not the end of an earlier call's context
	if p.resumes {
		left := p.set.Sub(now)
		fits = left > glance && left <= lookAgain
	}
	if !fits {
		return p.goOn(now)
	}
	return nil
}

// watch makes the end of the context end whatever waits.
func (p *patience) watch() {
	conn := p.conn
	p.unwatch = context.AfterFunc(p.ctx, func() { _ = conn.SetDeadline(longAgo) })
}

// lift has nothing but the context end what waits, until renew: for callers that cannot go on after a deadline, and that find
// out in another way that the server is silent.
func (p *patience) lift() error {
	p.attend()
	p.set, _ = p.ctx.Deadline()
	if err := p.conn.SetDeadline(p.set); err != nil {
		return err
	}
	return p.ctx.Err() // the watch has set a deadline that this one may have replaced
}

// attend has the context watched from now on, instead of looked at after a glance.
func (p *patience) attend() {
	if p.glancing {
		p.glancing = false
		p.watch()
	}
}

// use changes the timeout in the middle of a call.
func (p *patience) use(timeout time.Duration) error {
	if timeout == p.timeout {
		return nil
	}
	p.timeout = timeout
	return p.setDeadline()
}

// setDeadline gives what waits the whole timeout.
func (p *patience) setDeadline() error {
	p.moved, p.until = false, time.Time{}
	now := time.Now()
	if p.timeout > 0 {
		p.until = now.Add(p.timeout + p.timeout/slack)
	}
	return p.goOn(now)
}

// goOn has what waits do so until the timeout or the context ends, or it is to be looked at.
func (p *patience) goOn(now time.Time) error {
	p.set = p.until
	if end, ok := p.ctx.Deadline(); ok && (p.set.IsZero() || end.Before(p.set)) {
		p.set = end
	}
	look := lookAgain
	if p.glancing {
		look = glance
	}
	if soon := now.Add(look); p.resumes && (p.set.IsZero() || soon.Before(p.set)) {
		p.set = soon
	} else {
		p.glancing = false
	}
	if err := p.conn.SetDeadline(p.set); err != nil {
		return err
	}
	if p.unwatch != nil {
		return p.ctx.Err() // the watch has set a deadline that this one may have replaced
	}
	return nil
}

// over returns the context's error if that has ended.
func (p *patience) over() error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if end, ok := p.ctx.Deadline(); ok && !time.Now().Before(end) {
		return context.DeadlineExceeded // the context's own timer is about to say so
	}
	return nil
}

// expired is called when the deadline has passed. It returns nil if the call may go on, and otherwise why it must end: the
// context's error, or timeout.
func (p *patience) expired(timeout error) error {
	if err := p.over(); err != nil {
		return err
	}
	if p.glancing {
		moved := p.moved
		p.attend()
		err := p.setDeadline()
		p.moved = moved
		return err
	}
	if p.moved || p.timeout == 0 {
		return p.setDeadline()
	}
	if now := time.Now(); p.resumes && now.Before(p.until) {
		return p.goOn(now)
	}
	return timeout
}

// end is called at the end of a call. It reports whether the connection can be used for another one: not if the context
// has ended, because that may set the connection's deadline at any time from now on.
func (p *patience) end() bool {
	p.ctx = nil
	if p.unwatch == nil {
		return true
	}
	unhooked := p.unwatch()
	p.unwatch = nil
	return unhooked
}
