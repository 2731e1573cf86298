package redisbuf

import (
	"context"

	"github.com/millrace-io/millrace"
)

// SetFromBuffer sets key to buf, which goes to the socket together with the command, in one writev; from 1 MiB on, in two. It
// borrows buf.
//
// The error is redis.Nil if a condition ([IfAbsent], [IfPresent], [IfEqual]) did not hold. A *SentError says that the
// connection was lost after the command was sent: then it may have been executed, or not.
func (c commands) SetFromBuffer(ctx context.Context, key string, buf []byte, opts ...SetOption) error {
	set, err := combine(opts)
	if err != nil {
		return err
	}
	op := call{verb: setFromBuffer, key: key, buf: buf, size: int64(len(buf)), set: set}
	c.do(ctx, &op)
	return op.err
}

// SetChain sets key to the bytes of src, whose blocks go to the socket as they are, without being put together. It borrows
// src. The errors are those of SetFromBuffer.
func (c commands) SetChain(ctx context.Context, key string, src *millrace.Chain, opts ...SetOption) error {
	set, err := combine(opts)
	if err != nil {
		return err
	}
	op := call{verb: setChain, key: key, chain: src, size: int64(src.Len()), set: set}
	c.do(ctx, &op)
	return op.err
}

// composeSet composes a SET up to its value of op.size bytes.
func (c *conn) composeSet(op *call) error {
	args, size := 3+op.set.args(), len("SET")+len(op.key)+op.set.size()
	if op.inRequest() {
		size += int(op.size)
	}
	if err := c.compose(args, size); err != nil {
		return err
	}
	c.array(args)
	c.arg("SET")
	c.arg(op.key)
	c.number('$', op.size)
	return nil
}

// readOK reads the reply to a command that gives nothing.
func (c *conn) readOK() error {
	if err := c.awaitReply(); err != nil {
		return err
	}
	return c.readStatus()
}

// readStatus reads a reply that says no more than that something was done.
func (c *conn) readStatus() error {
	h, err := c.readHeader()
	if err != nil {
		return err
	}
	if h.kind != kindStatus {
		return badReply("%q where a status should be", h.kind)
	}
	return nil
}

// awaitReply sends what was composed, and receives the beginning of the reply into the inbox.
func (c *conn) awaitReply() error {
	if c.pipelined {
		return nil
	}
	if err := c.push(c.part()); err != nil {
		return err
	}
	n, err := c.exchange(1, c.inbox.room(), nil, nil)
	c.inbox.received(n)
	if n == 0 {
		return cut(err)
	}
	return nil
}
