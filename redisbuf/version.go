package redisbuf

import "context"

// composeVersion composes what asks for a range and for the length of the value that it is of: a transaction, or the length
// before the range and after it.
func (c *conn) composeVersion(op *call) error {
	if op.plain {
		return c.composePlain(op)
	}
	size := 2*len("MULTI") + len("STRLEN") + len("GETRANGE") + 2*len("EXEC") + 2*len(op.key) + 2*maxDigits
	if err := c.compose(11, size); err != nil {
		return err
	}
	c.composeUnwatch()
	c.array(1)
	c.arg("MULTI")
	c.array(2)
	c.arg("STRLEN")
	c.arg(op.key)
	if err := c.composeGetRange(op); err != nil {
		return err
	}
	c.array(1)
	c.arg("EXEC")
	return nil
}

func (c *conn) composePlain(op *call) error {
	size := 2*len("STRLEN") + len("GETRANGE") + 2*len("ASKING") + 3*len(op.key) + 2*maxDigits
	if err := c.compose(12, size); err != nil {
		return err
	}
	if err := c.composeOne("STRLEN", op.key); err != nil {
		return err
	}
	c.composeAsking()
	if err := c.composeGetRange(op); err != nil {
		return err
	}
	c.composeAsking()
	return c.composeOne("STRLEN", op.key)
}

// beginAsking says that the next call is for a slot that is moving to this server.
func (c *conn) beginAsking(ctx context.Context) error {
	err := c.command(ctx, "ASKING")
	c.asking = err == nil
	return err
}

// composeAsking says so once more, if it was said of the call: the server takes it as being about one command, or one
// transaction. The caller has made room for it.
func (c *conn) composeAsking() {
	if c.asking {
		c.array(1)
		c.arg("ASKING")
	}
}

// readAsking reads the reply to that, if it was sent. If the server refuses it, the next reply says what that means.
func (c *conn) readAsking() error {
	if !c.asking {
		return nil
	}
	err := c.readAny()
	if isServerError(err) {
		err = nil
	}
	return err
}

// readVersion reads the replies to that.
func (c *conn) readVersion(op *call) error {
	if err := c.awaitReply(); err != nil {
		return err
	}
	if op.plain {
		return c.readPlain(op)
	}
	if err := c.readUnwatch(); err != nil && err != errNotInPieces && !isServerError(err) {
		return err // what the server refuses there it refuses again below, and says why
	}
	if err := c.readTransaction(op); err != nil {
		return err
	}
	if err := c.readRange(op); err != nil {
		return err
	}
	if op.n != op.size {
		if op.verb == getVersionChain {
			op.chain.Release() // which was empty
		}
		return badReply("%d bytes of a range that has %d", op.n, op.size)
	}
	return nil
}

func (c *conn) readRange(op *call) error {
	if op.verb == getVersionChain {
		return c.readToChain(op)
	}
	return c.readToBuffer(op)
}

// readTransaction reads the replies to a transaction, up to the range.
func (c *conn) readTransaction(op *call) error {
	var refused error
	for range 3 { // MULTI, and what is queued, or executed at once if there is no transaction
		switch err := c.readAny(); {
		case err == nil:
		case isServerError(err):
			if refused == nil {
				refused = err
			}
		default:
			return err
		}
	}
	h, err := c.readHeader()
	if refused != nil && isServerError(err) {
		return refused // EXEC says only that there was one
	}
	if err != nil {
		return err
	}
	if h.kind != kindArray || h.n != 2 {
		return badReply("%q of %d where two results should be", h.kind, h.n)
	}
	if err := c.readLength(op); err != nil {
		return c.stepOver(err)
	}
	return nil
}

// readLength reads the length of a value, and returns an error if it is not the one that is expected.
func (c *conn) readLength(op *call) error {
	h, err := c.readHeader()
	switch {
	case err != nil:
		return err
	case h.kind != kindInt:
		return badReply("%q where a length should be", h.kind)
	case h.n != op.length:
		return &ValueChangedError{Was: op.length, Is: h.n}
	}
	return nil
}

// readPlain reads the length, the range, and the length once more. The first error is the call's. If there is one, op.chain
// is as it was: empty.
func (c *conn) readPlain(op *call) error {
	first := c.readLength(op)
	if first == nil || c.inOrder(first) {
		if err := c.readAsking(); err != nil {
			first = err
		}
	}
	if first != nil {
		first = c.stepOver(first)
	} else {
		first = c.readRange(op)
	}
	if first != nil && !c.inOrder(first) {
		return first
	}
	last := c.readAsking()
	if last == nil {
		last = c.readLength(op)
	}
	if last != nil && !c.inOrder(last) {
		c.broken = true
	}
	if first == nil {
		first = last
	}
	if first == nil && op.n != op.size {
		// It has the first length again. In between it ended here, or before that if nothing came.
		first = &ValueChangedError{Was: op.length, Is: op.off + op.n}
	}
	if first != nil && op.verb == getVersionChain {
		op.chain.Release()
	}
	return first
}

// stepOver reads one more reply, which nobody wants, and returns why. If why is no reply, there is no other.
func (c *conn) stepOver(why error) error {
	if !c.inOrder(why) {
		return why
	}
	switch h, err := c.readHeader(); {
	case err == nil && h.kind == kindBulk:
		return c.refuse(h.n, why)
	case err == nil:
		if err := c.skipRest(h, maxNesting); err != nil {
			return err
		}
	case !isServerError(err):
		return err
	}
	return why
}
