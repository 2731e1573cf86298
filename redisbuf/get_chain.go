package redisbuf

import (
	"context"

	"github.com/millrace-io/millrace"
)

const (
	// leastBlock is the size of the block that a value of entirely unknown size is received into.
	leastBlock = 4 << 10

	// mostBlock is the largest block that is borrowed at a time, and so the most that a server can have us hold by
	// announcing a value that never comes. It is the largest size that a millrace.Pool keeps.
	mostBlock = 1 << 20
)

// GetChain reads the value of key into pooled blocks, and adds them to dst, whose owner releases them with dst. A value of
// more than limit bytes is refused with a *ValueTooLargeError before it is read. If it returns an error, dst is as it was.
//
// Blocks are borrowed as the value arrives. A value that is as long as the one that the connection carried before is
// received into one block, if that can have its size (1 MiB). With [Pieces], when the Client's last GetChain or GetTo has read
// two of them or more and limit allows for that, the value is read piece by piece, and is nevertheless that of one moment.
//
// The error is redis.Nil if there is no such key.
func (c commands) GetChain(ctx context.Context, key string, dst *millrace.Chain, limit int) error {
	return c.getChain(ctx, key, dst, limit, c.client.settings.piece)
}

// getChain is GetChain with pieces of that many bytes; 0 reads the value whole.
func (c commands) getChain(ctx context.Context, key string, dst *millrace.Chain, limit int, piece int64) error {
	_ = dst.Len() // no chain panics here, and not when there are blocks that it should have had
	if piece > 0 && min(int64(limit), c.client.expected.Load())/2 >= piece {
		op := call{verb: getChainPieces, key: key, chain: dst, length: int64(limit), piece: piece}
		if c.do(ctx, &op); op.err != errNotInPieces {
			c.learn(&op)
			return op.err
		}
	}
	op := call{verb: getChain, key: key, chain: dst, size: int64(limit)}
	c.do(ctx, &op)
	c.learn(&op)
	return op.err
}

// learn has the next call treat its value as this one should have done: a short one that is asked for in pieces costs commands,
// a long one that is not costs time, and both weigh what they have in flight.
func (c commands) learn(op *call) {
	if op.err == nil && op.n != c.client.expected.Load() {
		c.client.expected.Store(op.n)
	}
}

// readToChain reads a value of up to op.size bytes into op.chain.
func (c *conn) readToChain(op *call) error {
	first := millrace.DefaultPool.Get(int(min(max(int64(c.expect), leastBlock), mostBlock, max(op.size, 1))))
	defer first.Release() // if it was not frozen
	buf := first.Bytes()
	size, got, err := c.ask(buf)
	if err != nil {
		return err
	}
	if size > op.size {
		return c.refuse(size-int64(got), &ValueTooLargeError{Size: size, Limit: op.size})
	}
	c.expect = int(min(size, mostBlock))
	if size <= int64(len(buf)) {
		if err := c.readValue(buf[:size], got); err != nil {
			return err
		}
		appendValue(op.chain, &first, int(size))
	} else {
		defer c.chain.Release() // what is in it if there is an error
		if err := c.readBlocks(&first, size, got); err != nil {
			return err
		}
		op.chain.Merge(&c.chain)
	}
	op.n = size
	return nil
}

// appendValue adds the first n bytes of d to dst. A short value does not keep a long block.
func appendValue(dst *millrace.Chain, d *millrace.Draft, n int) {
	if len(d.Bytes()) > leastBlock && n <= len(d.Bytes())/2 {
		fitting := millrace.DefaultPool.Get(n)
		copy(fitting.Bytes(), d.Bytes()[:n])
		d.Release()
		*d, fitting = fitting, millrace.Draft{}
	}
	ref := d.Freeze(n)
	dst.Append(&ref)
}

// readBlocks reads a value of size bytes into first, of which it has got bytes already, and into more blocks, and adds them
// to c.chain.
func (c *conn) readBlocks(first *millrace.Draft, size int64, got int) error {
	whole := &c.chain
	var next millrace.Draft // one for all blocks, so that it stays on the stack
	d, n := first, int(min(size, int64(len(first.Bytes()))))
	for left := size; ; {
		buf := d.Bytes()[:n]
		if left -= int64(n); left == 0 {
			if err := c.readValue(buf, got); err != nil {
				d.Release()
				return err
			}
			ref := d.Freeze(n)
			whole.Append(&ref)
			return nil
		}
		if err := c.readPart(buf, got); err != nil {
			d.Release()
			return err
		}
		ref := d.Freeze(n)
		whole.Append(&ref)
		next = millrace.DefaultPool.Get(int(min(left, mostBlock, max(64<<10, int64(whole.Len())))))
		d, n, got = &next, int(min(left, int64(len(next.Bytes())))), 0
	}
}
