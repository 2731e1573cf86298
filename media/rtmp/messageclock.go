package rtmp

import "time"

// A messageClock limits the time that a message may take to arrive.
type messageClock struct {
	limit   time.Duration
	expired func()
	timer   *time.Timer // nil before the first message that the Decoder had to wait for
	runs    bool
}

// start starts the time limit for a message whose first bytes arrived at the given time. If the
// limit of an older message is running, start does nothing. If the clock is nil, start and stop do
// nothing.
func (c *messageClock) start(at time.Time) {
	if c == nil || c.runs {
		return
	}
	c.runs = true
	if left := c.limit - time.Since(at); c.timer == nil {
		c.timer = time.AfterFunc(left, c.expired)
	} else {
		c.timer.Reset(left)
	}
}

// stop ends the running time limit.
func (c *messageClock) stop() {
	if c != nil && c.runs {
		c.runs = false
		c.timer.Stop()
	}
}

// settle is called when a message has ended. It restarts the clock for the oldest unfinished
// message.
func (d *Decoder) settle() {
	if d.clock != nil && d.clock.runs {
		d.clock.stop()
		d.countOldest()
	}
}

// countOldest starts the clock for the oldest unfinished message, if there is one.
func (d *Decoder) countOldest() {
	var oldest *chunkStream
	for _, s := range d.streams {
		if (s.unfinished || s == d.current) && (oldest == nil || s.begun.Before(oldest.begun)) {
			oldest = s
		}
	}
	if oldest != nil {
		d.clock.start(oldest.begun)
	}
}
