package chunk

import (
	"os"
	"sync"
	"time"
)

// descriptors are the open files of one FileHandler.
//
// Invariants, under mu:
//
//	len(byName) ≤ max(limit, those in use)
//	idle is a ring through prev and next, from the one that has been idle the longest on
//	the timer is running while somebody is idle
type descriptors struct {
	root      *os.Root
	limit     int
	keep      time.Duration // how long a file that nobody uses stays open
	trust     time.Duration // how long a name is believed to lead to the same file
	encodings []encoding    // the ones in which siblings are looked for
	tagging   tagging
	turns     *gate // of those who wait for a disk: see warmth

	mu     sync.Mutex
	byName map[string]*descriptor
	idle   descriptor // the ring's head, no file
	timer  *time.Timer
	timing bool // the timer is running
	closed bool
	open   int // files, in use or idle
	stats  FileStats
}

func (c *descriptors) init() {
	c.byName = make(map[string]*descriptor)
	c.idle.prev, c.idle.next = &c.idle, &c.idle
	c.timer = time.AfterFunc(time.Hour, c.expire)
	c.timer.Stop()
}

// acquire returns the descriptor of the file that name leads to now, for the caller to release. shared says that it was
// open already. A directory is an errDirectory, and anything else that is no regular file an errSpecial.
func (c *descriptors) acquire(name string) (d *descriptor, shared bool, err error) {
	for {
		d, mine := c.join(name)
		if mine {
			if d.err = d.open(); d.err != nil {
				d.file = nil
			}
			c.settle(d)
			close(d.opened)
		} else {
			<-d.opened
		}
		if d.err != nil {
			err := d.err
			c.release(d)
			return nil, false, err
		}
		if mine || d.current() {
			return d, !mine, nil
		}
		c.forget(d)
		c.release(d)
	}
}

// join returns the descriptor of that name with one more user. mine says that it is new, and that the caller opens it.
func (c *descriptors) join(name string) (d *descriptor, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d = c.byName[name]
	if d == nil {
		d = &descriptor{cache: c, name: name, opened: make(chan struct{}), refs: 1, forgotten: c.closed}
		if !c.closed {
			c.byName[name] = d
		}
		c.stats.Misses++
		return d, true
	}
	if d.prev != nil {
		d.unlink()
	}
	d.refs++
	c.stats.Hits++
	return d, false
}

// settle notes how opening d has ended.
func (c *descriptors) settle(d *descriptor) {
	c.mu.Lock()
	if d.err != nil {
		c.forgetLocked(d)
	} else {
		c.open++
	}
	victims := c.evict()
	c.mu.Unlock()
	closeAll(victims)
}

// forget has d closed when its users are done with it, and the next one who comes open the file anew.
func (c *descriptors) forget(d *descriptor) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(d)
}

func (c *descriptors) forgetLocked(d *descriptor) {
	if !d.forgotten {
		d.forgotten = true
		delete(c.byName, d.name)
	}
}

// release ends one use of d.
func (c *descriptors) release(d *descriptor) {
	c.mu.Lock()
	d.refs--
	var victims []*descriptor
	if d.refs == 0 {
		if d.forgotten || c.keep == 0 {
			c.forgetLocked(d)
			if d.file != nil {
				c.open--
				victims = append(victims, d)
			}
		} else {
			c.rest(d)
			victims = c.evict()
		}
	}
	c.mu.Unlock()
	closeAll(victims)
}

// rest makes d the last of the idle ones. c.mu is held.
func (c *descriptors) rest(d *descriptor) {
	d.idleSince = time.Now()
	d.prev, d.next = c.idle.prev, &c.idle
	d.prev.next, d.next.prev = d, d
	if !c.timing {
		c.timing = true
		c.timer.Reset(c.keep)
	}
}

// unlink takes d out of the idle ones.
func (d *descriptor) unlink() {
	d.prev.next, d.next.prev = d.next, d.prev
	d.prev, d.next = nil, nil
}

// evict takes out those that have been idle the longest until there are not too many. c.mu is held; the caller closes
// them without it.
func (c *descriptors) evict() (victims []*descriptor) {
	for len(c.byName) > c.limit && c.idle.next != &c.idle {
		victims = append(victims, c.takeOldest())
	}
	return victims
}

// takeOldest takes out the one that has been idle the longest, for the caller to close.
func (c *descriptors) takeOldest() *descriptor {
	d := c.idle.next
	d.unlink()
	c.forgetLocked(d)
	c.open--
	return d
}

// expire closes those that have been idle for too long.
func (c *descriptors) expire() {
	c.mu.Lock()
	c.timing = false
	var victims []*descriptor
	for now := time.Now(); c.idle.next != &c.idle; {
		if left := c.keep - now.Sub(c.idle.next.idleSince); left > 0 {
			c.timing = true
			c.timer.Reset(left)
			break
		}
		victims = append(victims, c.takeOldest())
	}
	c.mu.Unlock()
	closeAll(victims)
}

// close closes those that nobody uses now, and each of the others when its users are done with it.
func (c *descriptors) close() {
	c.mu.Lock()
	c.closed = true
	c.timer.Stop()
	c.timing = false
	var victims []*descriptor
	for c.idle.next != &c.idle {
		victims = append(victims, c.takeOldest())
	}
	for _, d := range c.byName {
		c.forgetLocked(d)
	}
	c.mu.Unlock()
	closeAll(victims)
}

func closeAll(list []*descriptor) {
	for _, d := range list {
		d.close()
	}
}
