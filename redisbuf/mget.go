package redisbuf

import "context"

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
	p := c.Pipeline()
	p.MGet(keys, buf, slots)
	err = p.Exec(ctx)
	for _, s := range slots {
		n = max(n, s.End)
	}
	return n, err
}

// MGet collects what Client.MGet does. Exec fills slots, and asks the servers one after the other. A missing key is reported
// only in its slot.
func (p *Pipeline) MGet(keys []string, buf []byte, slots []Slot) {
	if len(slots) != len(keys) {
		panic("redisbuf: MGet with another number of slots than of keys")
	}
	p.oneByOne = true // because they share buf
	all := &packed{buf: buf, keys: len(keys)}
	for i, key := range keys {
		p.add(call{verb: getPacked, key: key, packed: all, slot: &slots[i]})
	}
}

// fill says where a value is.
func (s *Slot) fill(op *call) { *s = Slot{Start: int(op.off), End: int(op.off + op.n), Err: op.err} }

// packed is a buffer that values are put into one after the other.
//
// Invariant: 0 ≤ used ≤ len(buf).
type packed struct {
	buf  []byte
	used int
	keys int // whose values it is for
}

// share returns what each value has of the buffer on average, rounded up: more than the buffer is not in flight for all.
func (p *packed) share() int64 { return int64((len(p.buf) + p.keys - 1) / p.keys) }

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
