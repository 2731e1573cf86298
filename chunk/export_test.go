package chunk

import (
	"context"
	"net"
	"net/http"
	"os"
	"reflect"
	"time"

	"github.com/millrace-io/millrace"
)

// ReadAheadAfter returns the number of the chunk after which a file is read ahead whose chunks take so many microseconds
// to read and to work on, or 0.
func ReadAheadAfter(chunks [][2]int) int {
	var p pace
	for i, c := range chunks {
		if p.observe(time.Duration(c[0])*time.Microsecond, time.Duration(c[1])*time.Microsecond) {
			return i + 1
		}
	}
	return 0
}

// KeptByQueue returns how many chunks a queue still holds that it has given, after these steps: + is a chunk that comes,
// and - one that is given.
func KeptByQueue(steps string) (kept int) {
	var q queue
	for i, step := range steps {
		if step == '+' {
			q.push(millrace.Ref{}, int64(i)+1)
		} else {
			q.pop()
		}
	}
	for _, it := range q.items[:cap(q.items)] {
		if it != (item{}) {
			kept++
		}
	}
	return kept - q.len()
}

// Running reports whether the goroutine that reads ahead is there.
func (r *Reader) Running() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// SmallToResponse copies what is left of a file that was said to have size bytes. It reports whether that was so.
func SmallToResponse(w http.ResponseWriter, file *os.File, size int64) (bool, error) {
	c := &copying{ctx: context.Background(), dst: w, response: w, src: file}
	err := c.smallToResponse(size)
	if err == errUnhandled {
		return false, nil
	}
	return true, err
}

// CopyKeeps returns the names of what the next Copies find that earlier ones have left. There should be nothing.
func CopyKeeps() (names []string) {
	for range 16 {
		c := copyings.Get().(*copying)
		hook := c.alarm.hook
		c.alarm.hook = nil // its own, which is meant to be there
		for v, i := reflect.ValueOf(c).Elem(), 0; i < v.NumField(); i++ {
			if !v.Field(i).IsZero() {
				names = append(names, v.Type().Field(i).Name)
			}
		}
		c.alarm.hook = hook
		defer copyings.Put(c)
	}
	return names
}

// WriteHeld is Write of what the kernel is to keep until more comes.
func (c *Conn) WriteHeld(p []byte) (n int, err error) {
	c.hold(func() { n, err = c.Write(p) })
	return n, err
}

// HoldAndPanic panics while what is written is held.
func (c *Conn) HoldAndPanic() { c.hold(func() { panic("in the middle") }) }

// Held reports whether what is written is held.
func (c *Conn) Held() bool { return c.held.Load() }

// CorkAndUncork costs what a response without a Listener costs more.
func CorkAndUncork(c *net.TCPConn) {
	cork(c)
	uncork(c)
}
