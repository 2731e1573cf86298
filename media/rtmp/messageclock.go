package rtmp

import "time"

// A messageClock limits the time that a message may take to arrive. When a message exceeds the time
// limit, the messageClock calls the function expired.
type messageClock struct {
	limit   time.Duration
	expired func()
	timer   *time.Timer // nil until the first call to start
	runs    bool
}

// start starts the time limit for a message whose first bytes arrived at the time t. It does
// nothing if the time limit for an older message is running. c may be nil.
func (c *messageClock) start(t time.Time) {
	if c == nil || c.runs {
		return
	}
	c.runs = true
	if left := c.limit - time.Since(t); c.timer == nil {
		c.timer = time.AfterFunc(left, c.expired)
	} else {
		c.timer.Reset(left)
	}
}

// stop stops the timer. It does nothing if no time limit is running. c may be nil.
func (c *messageClock) stop() {
	if c != nil && c.runs {
		c.runs = false
		c.timer.Stop()
	}
}

// settle is called when a message is complete or dropped. If the time limit was running, settle
// restarts it for the oldest unfinished message.
func (d *Decoder) settle() {
	if d.clock != nil && d.clock.runs {
		d.clock.stop()
		d.countOldest()
	}
}

// countOldest starts the time limit for the oldest unfinished message, if there is one.
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
