package rtmp

import "time"

// A messageClock bounds how long messages may take to arrive.
type messageClock struct {
	limit   time.Duration
	expired func()
	timer   *time.Timer // nil before the first message that had to be waited for
	runs    bool
}

// start begins to count for a message of which something came at a time, unless it counts for an
// older one. A nil clock does nothing, here and below.
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

// stop ends the count.
func (c *messageClock) stop() {
	if c != nil && c.runs {
		c.runs = false
		c.timer.Stop()
	}
}

// settle makes the clock count for another message: one has just ended.
func (d *Decoder) settle() {
	if d.clock != nil && d.clock.runs {
		d.clock.stop()
		d.countOldest()
	}
}

// countOldest starts the clock for the oldest message that is unfinished, if there is one.
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
