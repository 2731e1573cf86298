package redisbuf

import (
	"context"
	"math"
)

// GetToBuffer reads the value of key into buf, and returns the length of the value. It borrows buf,
// and may overwrite all of buf.
//
// The error is redis.Nil if the key does not exist, and a *BufferTooSmallError if the value is
// longer than buf.
func (c *Client) GetToBuffer(ctx context.Context, key string, buf []byte) (n int, err error) {
	cmd := getCmds.get()
	defer getCmds.put(cmd)
	cmd.key, cmd.buf = key, buf
	err = c.do(ctx, cmd)
	return int(cmd.n), err
}

// GetRangeToBuffer reads the value of key from offset off into buf, and returns the number of bytes
// read. It stops when buf is full or the value ends. A key that does not exist is treated as an
// empty value. GetRangeToBuffer borrows buf.
func (c *Client) GetRangeToBuffer(ctx context.Context, key string, off int64, buf []byte) (n int,
	err error) {
	if off < 0 {
		return 0, errOffset
	}
	if len(buf) == 0 {
		return 0, nil // GETRANGE cannot request an empty range
	}
	cmd := getCmds.get()
	defer getCmds.put(cmd)
	cmd.getHeader, cmd.buf = rangeOf(key, off, int64(len(buf))), buf
	err = c.do(ctx, cmd)
	return int(cmd.n), err
}

type getHeader struct {
	commandInfo
	off, size int64 // offset and size of the range; size is 0 for the whole value
}

func wholeOf(key string) getHeader { return getHeader{commandInfo: commandInfo{key: key}} }

// rangeOf returns the getHeader of a command that reads up to size bytes from offset off. size must
// not be 0.
func rangeOf(key string, off, size int64) getHeader {
	return getHeader{commandInfo: commandInfo{key: key}, off: off, size: size}
}

func (g *getHeader) op() string {
	if g.size == 0 {
		return "GET"
	}
	return "GETRANGE"
}

func (g *getHeader) bytes() int64 { return g.n }

func (g *getHeader) compose(c *conn) error {
	if g.size == 0 {
		c.queueCommand(g.op(), g.key)
		return nil
	}
	c.beginCommand(4)
	c.arg(g.op())
	c.arg(g.key)
	c.intArg(g.off)
	c.intArg(g.off + min(g.size-1, math.MaxInt64-g.off))
	c.pushRequest()
	return nil
}

type getCmd struct {
	getHeader
	buf []byte
}

var getCmds freeList[getCmd]

func (g *getCmd) read(c *conn) (err error) {
	g.n, err = c.readInto(g.buf)
	return err
}

func (g *getCmd) weight(int64) int64 { return int64(len(g.buf)) }

func (c *conn) readInto(buf []byte) (int64, error) {
	size, err := c.readValueHeader()
	if err != nil {
		return 0, err
	}
	if have := int64(len(buf)); size > have {
		return 0, c.skipUnwanted(size, &BufferTooSmallError{Need: size, Have: have})
	}
	if err := c.readPart(buf[:size]); err != nil {
		return 0, err
	}
	return size, c.readEnd()
}

// A Slot is the place of a value in a buffer: buf[Start:End].
type Slot struct {
	Start, End int
	// Err is redis.Nil if the key does not exist. It is a *BufferTooSmallError if the value did not
	// fit into the rest of the buffer.
	Err error
}

// MGet reads the values of keys into buf, one after the other, and stores the position of each
// value in slots. It returns the number of bytes that the values take up in buf, and the first
// error in slots other than redis.Nil.
//
// MGet skips a value that does not fit into the rest of buf. All keys on one server take one round
// trip.
//
// MGet borrows keys, buf and slots, and may overwrite all of buf. It panics if slots and keys
// differ in length.
func (c *Client) MGet(ctx context.Context, keys []string, buf []byte, slots []Slot) (n int,
	err error) {
	p := c.Pipeline()
	p.MGet(keys, buf, slots)
	err = p.Exec(ctx)
	for _, s := range slots {
		n = max(n, s.End)
	}
	return n, err
}

// MGet adds a call that reads the values of keys into buf; see [Client.MGet]. Exec stores the
// position or the error of each value in slots, and does not return redis.Nil for a missing key. A
// Pipeline with an MGet queries the servers one after the other, because the values share buf.
func (p *Pipeline) MGet(keys []string, buf []byte, slots []Slot) {
	if len(slots) != len(keys) {
		panic("redisbuf: MGet with another number of slots than of keys")
	}
	p.oneByOne = true // because the keys share buf
	shared := &sharedBuffer{buf: buf, keys: len(keys)}
	for i, key := range keys {
		slots[i] = Slot{}
		p.add(&mgetCmd{getHeader: wholeOf(key), shared: shared, slot: &slots[i]})
	}
}

type sharedBuffer struct {
	buf  []byte
	used int // buf[:used] holds values
	keys int // number of keys that share the buffer
}

// An mgetCmd reads one value into the shared buffer, after the values already there.
type mgetCmd struct {
	getHeader
	shared *sharedBuffer
	slot   *Slot
}

func (m *mgetCmd) read(c *conn) (err error) {
	b := m.shared
	if m.n, err = c.readInto(b.buf[b.used:]); err != nil {
		return err
	}
	m.slot.Start, m.slot.End = b.used, b.used+int(m.n)
	b.used = m.slot.End
	return nil
}

// weight divides the size of the buffer among the keys that share it, and rounds up.
func (m *mgetCmd) weight(int64) int64 {
	return int64((len(m.shared.buf) + m.shared.keys - 1) / m.shared.keys)
}
