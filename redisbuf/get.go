package redisbuf

import "context"

// GetToBuffer reads the value of key into buf, straight from the socket, and returns its length. It borrows buf, and may
// use all of it to work with, whatever the length is. With [Pieces], a value that may have two of them is read piece
// by piece, and is nevertheless that of one moment.
//
// The error is redis.Nil if there is no such key, and a *BufferTooSmallError if buf is too small.
func (c commands) GetToBuffer(ctx context.Context, key string, buf []byte) (n int, err error) {
	return c.getToBuffer(ctx, key, buf, c.client.settings.piece)
}

// getToBuffer is GetToBuffer with pieces of that many bytes; 0 reads the value whole.
func (c commands) getToBuffer(ctx context.Context, key string, buf []byte, piece int64) (n int, err error) {
	if piece > 0 && int64(len(buf))/2 >= piece {
		op := call{verb: getPieces, key: key, buf: buf, piece: piece}
		if c.do(ctx, &op); op.err != errNotInPieces {
			return int(op.n), op.err
		}
	}
	op := call{verb: getToBuffer, key: key, buf: buf}
	c.do(ctx, &op)
	return int(op.n), op.err
}

// GetRangeToBuffer reads the bytes of the value of key from off on into buf, as many as there are and fit, and returns
// how many. If the key is not there, or its value is not that long, that is none. It borrows buf.
func (c commands) GetRangeToBuffer(ctx context.Context, key string, off int64, buf []byte) (n int, err error) {
	if off < 0 {
		return 0, errOffset
	}
	if len(buf) == 0 {
		return 0, nil
	}
	op := call{verb: getRange, key: key, off: off, size: int64(len(buf)), buf: buf}
	c.do(ctx, &op)
	return int(op.n), op.err
}

// composeGetRange composes a GETRANGE of op.size bytes, which are not 0.
func (c *conn) composeGetRange(op *call) error {
	if err := c.compose(4, len("GETRANGE")+len(op.key)+2*maxDigits); err != nil {
		return err
	}
	c.array(4)
	c.arg("GETRANGE")
	c.arg(op.key)
	c.intArg(op.off)
	c.intArg(op.off + op.size - 1)
	return nil
}

// readToBuffer reads a value into op.buf.
func (c *conn) readToBuffer(op *call) error {
	size, got, err := c.ask(op.buf)
	if err != nil {
		return err
	}
	if have := int64(len(op.buf)); size > have {
		return c.refuse(size-int64(got), &BufferTooSmallError{Need: size, Have: have})
	}
	if err := c.readValue(op.buf[:size], got); err != nil {
		return err
	}
	op.n = size
	return nil
}

// skipMost is how much of a value that is not wanted is read to keep the connection. A new one costs less than more.
const skipMost = 1 << 20

// refuse steps over the rest of a value, and returns why. If that is too long, or fails, the connection is lost.
func (c *conn) refuse(rest int64, why error) error {
	if rest > skipMost && !c.keep && !c.pipelined {
		c.broken = true
		return why
	}
	if err := c.skipValue(rest); err != nil {
		c.broken = true
	}
	return why
}
