package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A deadline is the one of a connection or response, which others may want to cut short. It is not touched any more after retire.
type deadline struct {
	mu      sync.Mutex
	set     func(time.Time) error
	wasCut  bool
	retired bool
}

// move sets the deadline, unless it was cut.
func (d *deadline) move(to time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wasCut && !d.retired {
		_ = d.set(to)
	}
}

// cut makes a call that waits return, and later ones at once.
func (d *deadline) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.retired {
		d.wasCut = true
		_ = d.set(pastDeadline)
	}
}

// retire leaves no deadline.
func (d *deadline) retire() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.retired {
		d.retired = true
		_ = d.set(time.Time{})
	}
}

// pastDeadline is over: what waits returns at once.
var pastDeadline = time.Unix(1, 0)

// A patience makes a read fail when nothing comes for a while, or when the server shuts down, by way of a deadline. As
// a whole, what is read may take for ever.
type patience struct {
	deadline deadline
	idle     time.Duration
	armed    int64 // when the deadline was set; see now
	unwatch  func() bool
}

// newPatience sets the first deadline with set. over ends the watch for the shutdown.
func newPatience(idle time.Duration, draining context.Context, set func(time.Time) error) *patience {
	p := &patience{deadline: deadline{set: set}, idle: idle, armed: now()}
	p.deadline.move(time.Now().Add(idle))
	p.unwatch = context.AfterFunc(draining, p.deadline.cut)
	return p
}

// note moves the deadline after a read, at most once a second or in an eighth of the idle time: a deadline costs about as much
// as a small read.
func (p *patience) note() {
	if at := now(); at-p.armed > int64(min(time.Second, p.idle/8)) {
		p.armed = at
		p.deadline.move(time.Now().Add(p.idle))
	}
}

// over ends the watch, and leaves no deadline.
func (p *patience) over() {
	p.unwatch()
	p.deadline.retire()
}

// explainSilence puts the limit into the error of a read that waited too long.
func explainSilence(err error, idle time.Duration) error {
	if err == nil || err == io.EOF || !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return fmt.Errorf("nothing came for %v (--publish-timeout): %w", idle, os.ErrDeadlineExceeded)
}
