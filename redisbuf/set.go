package redisbuf

import (
	"context"

	"github.com/millrace-io/millrace"
)

// SetFromBuffer sets key to buf. The command and buf go to the socket in one writev; from 1 MiB on, in two. It borrows buf.
//
// The error is redis.Nil if a condition ([IfAbsent], [IfPresent]) did not hold. After a *SentError it is unknown
// whether the key was set.
func (c *Client) SetFromBuffer(ctx context.Context, key string, buf []byte, opts ...SetOption) error {
	set, err := combine(opts)
	if err != nil {
		return err
	}
	cmd := setCmds.get()
	defer setCmds.put(cmd)
	cmd.key, cmd.writes, cmd.buf, cmd.set = key, true, buf, set
	return c.do(ctx, cmd)
}

// SetChain sets key to the bytes of src, whose blocks go to the socket as they are. It borrows src. The errors are those of
// SetFromBuffer.
func (c *Client) SetChain(ctx context.Context, key string, src *millrace.Chain, opts ...SetOption) error {
	set, err := combine(opts)
	if err != nil {
		return err
	}
	_ = src.Len() // a nil chain panics here
	cmd := setChainCmds.get()
	defer setChainCmds.put(cmd)
	cmd.key, cmd.writes, cmd.src, cmd.set = key, true, src, set
	return c.do(ctx, cmd)
}

// A setCmd sets a key to buf.
type setCmd struct {
	commandInfo
	buf []byte
	set SetOption
}

var setCmds freeList[setCmd]

func (s *setCmd) compose(c *conn) error {
	c.beginSet(s.key, int64(len(s.buf)), &s.set)
	if err := c.pushValue(s.buf, len(s.buf) >= minHeadStart); err != nil {
		return err
	}
	c.endSet(&s.set)
	return nil
}

func (s *setCmd) read(c *conn) error { return c.readOK() }

func (s *setCmd) weight(int64) int64 { return int64(len(s.buf)) }

// A setChainCmd sets a key to the bytes of src.
type setChainCmd struct {
	commandInfo
	src *millrace.Chain
	set SetOption
}

var setChainCmds freeList[setChainCmd]

func (s *setChainCmd) compose(c *conn) error {
	c.beginSet(s.key, int64(s.src.Len()), &s.set)
	headStart := s.src.Len() >= minHeadStart
	for p := range s.src.All() {
		if err := c.pushValue(p, headStart); err != nil {
			return err
		}
		headStart = false
	}
	c.endSet(&s.set)
	return nil
}

func (s *setChainCmd) read(c *conn) error { return c.readOK() }

func (s *setChainCmd) weight(int64) int64 { return int64(s.src.Len()) }

// beginSet queues a SET up to its value of size bytes.
func (c *conn) beginSet(key string, size int64, set *SetOption) {
	c.array(3 + set.args())
	c.arg("SET")
	c.arg(key)
	c.bulkLen(size)
	c.pushRequest()
}

// endSet queues what follows the value of a SET.
func (c *conn) endSet(set *SetOption) {
	c.lineEnd()
	set.appendTo(&c.request)
	c.pushRequest()
}

const (
	// headStartLen is how much of a long value is sent ahead of the rest. Redis takes a long argument over as it was received,
	// instead of copying it, if it has seen the command before all of the argument is there.
	headStartLen = 64 << 10

	// minHeadStart is the shortest value for which that pays.
	minHeadStart = 1 << 20
)

// pushValue queues p as a part of a value. With headStart, it sends the beginning of p at once.
func (c *conn) pushValue(p []byte, headStart bool) error {
	if headStart {
		n := min(len(p), headStartLen)
		if err := c.push(p[:n]); err != nil {
			return err
		}
		if err := c.flush(); err != nil {
			return err
		}
		p = p[n:]
	}
	return c.push(p)
}
