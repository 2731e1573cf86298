package redisbuf

import (
	"context"

	"github.com/millrace-io/millrace"
)

// SetFromBuffer sets key to buf. It sends the command and buf to the socket in one writev, or in
// two if buf has 1 MiB or more. SetFromBuffer borrows buf.
//
// The error is redis.Nil if a condition ([IfAbsent] or [IfPresent]) was not met. After a *SentError
// it is unknown whether the key was set.
func (c *Client) SetFromBuffer(ctx context.Context, key string, buf []byte,
	opts ...SetOption) error {
	set, err := newSetHeader(key, int64(len(buf)), opts)
	if err != nil {
		return err
	}
	cmd := setCmds.get()
	defer setCmds.put(cmd)
	cmd.setHeader, cmd.buf = set, buf
	return c.do(ctx, cmd)
}

// SetChain sets key to the bytes of src, without a copy. It borrows src, and returns the same
// errors as SetFromBuffer.
func (c *Client) SetChain(ctx context.Context, key string, src *millrace.Chain,
	opts ...SetOption) error {
	set, err := newSetHeader(key, int64(src.Len()), opts) // a nil chain panics here
	if err != nil {
		return err
	}
	cmd := setChainCmds.get()
	defer setChainCmds.put(cmd)
	cmd.setHeader, cmd.src = set, src
	return c.do(ctx, cmd)
}

type setHeader struct {
	commandInfo
	size int64 // length of the value in bytes
	opt  SetOption
}

func newSetHeader(key string, size int64, opts []SetOption) (setHeader, error) {
	opt, err := combineOptions(opts)
	return setHeader{commandInfo: commandInfo{key: key, writes: true}, size: size, opt: opt}, err
}

func (s *setHeader) op() string { return "SET" }

func (s *setHeader) bytes() int64 { return s.size }

// begin queues the request up to the value.
func (s *setHeader) begin(c *conn) {
	c.beginCommand(3 + s.opt.args)
	c.arg(s.op())
	c.arg(s.key)
	c.bulkLen(s.size)
	c.pushRequest()
}

// end completes the request after the value. It adds a line end and the options, and queues them.
func (s *setHeader) end(c *conn) {
	c.lineEnd()
	s.opt.appendTo(&c.request)
	c.pushRequest()
}

func (s *setHeader) read(c *conn) error { return c.readOK() }

func (s *setHeader) weight(int64) int64 { return s.size }

type setCmd struct {
	setHeader
	buf []byte
}

var setCmds freeList[setCmd]

func (s *setCmd) compose(c *conn) error {
	s.begin(c)
	if err := c.pushValue(s.buf, s.size >= minHeadStart); err != nil {
		return err
	}
	s.end(c)
	return nil
}

type setChainCmd struct {
	setHeader
	src *millrace.Chain
}

var setChainCmds freeList[setChainCmd]

func (s *setChainCmd) compose(c *conn) error {
	s.begin(c)
	headStart := s.size >= minHeadStart
	for p := range s.src.All() {
		if err := c.pushValue(p, headStart); err != nil {
			return err
		}
		headStart = false
	}
	s.end(c)
	return nil
}

const (
	// headStartLen is the number of bytes of a long value that are sent before the rest. Redis can
	// then parse the command early, and receive the value into its final memory without a copy.
	headStartLen = 64 << 10

	minHeadStart = 1 << 20
)

// pushValue adds p, a part of a value, to the queue. If headStart is set, pushValue sends the first
// headStartLen bytes of p at once.
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
