package redisbuf

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A Slot says where in a buffer a value is: buf[Start:End].
type Slot struct {
	Start, End int
	Err        error // redis.Nil if there is no such key, a *BufferTooSmallError if the value did not fit any more
}

// MGet reads the values of keys into buf, one after the other, and says in slots where each of them is. It panics
// unless there are as many slots as keys. Keys of one server take one round trip. A value that does not fit into what
// is left of buf is stepped over. MGet borrows all of that, and may use all of buf as working space.
//
// It returns how much of buf the values take up, and the first error of a slot that is not redis.Nil.
func (c commands) MGet(ctx context.Context, keys []string, buf []byte, slots []Slot) (n int, err error) {
	if len(slots) != len(keys) {
		panic("redisbuf: MGet with another number of slots than of keys")
	}
	p := packed{buf: buf}
	pipe := c.Pipeline()
	pipe.oneByOne = true
	results := make([]*Result, len(keys))
	for i, key := range keys {
		results[i] = pipe.add(call{verb: getPacked, key: key, packed: &p})
	}
	_ = pipe.Exec(ctx) // each has its own
	for i, r := range results {
		slots[i] = Slot{Start: int(r.call.off), End: int(r.call.off + r.call.n), Err: r.Err()}
		if err == nil && r.Err() != nil && r.Err() != redis.Nil {
			err = r.Err()
		}
	}
	return p.used, err
}

// packed is a buffer that values are put into one after the other.
//
// Invariant: 0 ≤ used ≤ len(buf).
type packed struct {
	buf  []byte
	used int
}

// readPacked reads a value into what is left of a buffer.
func (c *conn) readPacked(op *call) error {
	p := op.packed
	op.buf = p.buf[p.used:]
	if err := c.readToBuffer(op); err != nil {
		return err
	}
	op.off = int64(p.used)
	p.used += int(op.n)
	return nil
}
