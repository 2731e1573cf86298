package redisbuf

import (
	"errors"

	"github.com/millrace-io/millrace"
	"github.com/redis/go-redis/v9"
)

// errNotInPieces says that a value is to be read whole: it has changed while its pieces were read, it is empty or not
// there, or the server does not let its pieces be read.
var errNotInPieces = errors.New("redisbuf: not to be read in pieces")

// composePieces composes what asks for the first piece of a value and for the length of the whole. The key is watched from
// here on, which is Redis' optimistic lock: an EXEC is refused if the key has changed since.
func (c *conn) composePieces(op *call) error {
	if c.whole {
		return errNotInPieces
	}
	op.off, op.size = 0, op.piece
	err := c.compose(10, len("MULTI")+len("EXEC")+len("WATCH")+len("STRLEN")+len("GETRANGE")+3*len(op.key)+2*maxDigits)
	if err != nil {
		return err
	}
	c.composeUnwatch()
	c.array(2)
	c.arg("WATCH")
	c.arg(op.key)
	if err := c.composeOne("STRLEN", op.key); err != nil {
		return err
	}
	return c.composeGetRange(op)
}

// composeUnwatch adds what ends the watch that an earlier call has left: a transaction of nothing. The caller has made room
// for it. The replies to it are the next ones.
func (c *conn) composeUnwatch() {
	if c.watching {
		c.composeExec()
		c.watching, c.unwatched = false, true
	}
}

func (c *conn) composeExec() {
	c.array(1)
	c.arg("MULTI")
	c.array(1)
	c.arg("EXEC")
}

// readUnwatch reads the replies to that, if it was sent.
func (c *conn) readUnwatch() error {
	if !c.unwatched {
		return nil
	}
	c.unwatched = false
	err := c.readExec()
	c.watching = false
	return err
}

// most returns how long a value that is read in pieces may be.
func (op *call) most() int64 {
	if op.verb == getChainPieces {
		return op.length
	}
	return int64(len(op.buf))
}

// tooLong is the error of a longer one.
func (op *call) tooLong(size int64) error {
	if op.verb == getChainPieces {
		return &ValueTooLargeError{Size: size, Limit: op.length}
	}
	return &BufferTooSmallError{Need: size, Have: int64(len(op.buf))}
}

// readPieces reads a value piece by piece into op.buf or op.chain.
func (c *conn) readPieces(op *call) error {
	defer c.chain.Release() // what is in it if there is an error
	if err := c.readAllPieces(op); err != nil {
		return err
	}
	if op.verb == getChainPieces {
		op.chain.Merge(&c.chain)
	}
	return nil
}

// readAllPieces reads it into op.buf or c.chain. A value that is shorter than a piece has come with the first reply. The next
// piece is asked for when the one before has begun to come, so at most two are under way.
func (c *conn) readAllPieces(op *call) error {
	size, got, err := c.firstPiece(op)
	if err != nil {
		return err
	}
	if got.length == 0 { // empty, or not there
		return c.finishPiece(op, got, errNotInPieces)
	}
	if got.length < op.piece { // all that there was at that moment
		if err = c.finishPiece(op, got, nil); err == nil {
			op.n = got.length
		}
		return err
	}
	if size > c.maxValue {
		return badReply("a value of %d bytes", size)
	}
	if size > op.most() {
		return c.finishPiece(op, got, op.tooLong(size))
	}
	for {
		next := op.off + op.size
		if got.length != op.size || size < next {
			return c.finishPiece(op, got, errNotInPieces)
		}
		if err := c.over(); err != nil {
			return err
		}
		last := next == size
		if last {
			err = c.sendExec()
		} else {
			ahead := *op
			ahead.off, ahead.size = next, min(op.piece, size-next)
			if err = c.composeGetRange(&ahead); err == nil {
				err = c.flush()
			}
		}
		if err != nil {
			return err
		}
		if err := c.finishPiece(op, got, nil); err != nil {
			return err
		}
		if last {
			if err = c.readExec(); err == nil {
				op.n = size
			}
			return err
		}
		op.off, op.size = next, min(op.piece, size-next)
		if got, err = c.pieceHeader(op); err != nil {
			return c.declined(err)
		}
	}
}

// A piece is the header of a piece of a value, as it was received.
type piece struct {
	length int64 // in bytes
	there  int   // how many of them have come with the header
}

// firstPiece reads the replies to what composePieces has composed, up to the header of the first piece.
func (c *conn) firstPiece(op *call) (size int64, got piece, err error) {
	if err := c.awaitReply(); err != nil {
		return 0, piece{}, err
	}
	refused := c.readUnwatch()
	if refused == errNotInPieces && !c.whole { // what was watched before has changed
		refused = nil
	}
	if refused != nil && !c.inOrder(refused) {
		return 0, piece{}, refused
	}
	switch err := c.readStatus(); {
	case err != nil && !isServerError(err):
		return 0, piece{}, err
	case refused == nil:
		refused = err
	}
	c.watching = true
	h, err := c.readHeader()
	switch {
	case err != nil && !isServerError(err):
		return 0, piece{}, err
	case err == nil && h.kind != kindInt:
		return 0, piece{}, badReply("%q where a length should be", h.kind)
	case refused == nil:
		refused = err
	}
	got, err = c.pieceHeader(op)
	switch {
	case err != nil && !isServerError(err):
		return 0, piece{}, err
	case refused == nil:
		return h.n, got, c.declined(err)
	case err != nil:
		return 0, piece{}, c.declined(refused)
	}
	return 0, piece{}, c.finishPiece(op, got, c.declined(refused))
}

// pieceHeader reads the header of the piece that op says.
func (c *conn) pieceHeader(op *call) (piece, error) {
	var place []byte // none in a chain: blocks are borrowed when it is known how much comes
	if op.verb == getPieces {
		place = op.buf[op.off : op.off+op.size]
	}
	n, got, err := c.askNext(place)
	return piece{n, got}, err
}

// finishPiece reads the rest of a piece, to its place unless there is a reason not to, and returns that.
func (c *conn) finishPiece(op *call, p piece, why error) error {
	switch {
	case why == nil && op.verb == getChainPieces:
		block := millrace.DefaultPool.Get(int(min(p.length, mostBlock)))
		return c.readBlocks(&block, p.length, p.there)
	case why == nil:
		return c.readValue(op.buf[op.off:op.off+p.length], p.there)
	}
	if p.length > op.piece { // which nobody has asked for
		return c.refuse(p.length-int64(p.there), why)
	}
	if err := c.skipValue(p.length - int64(p.there)); err != nil {
		c.broken = true
	}
	return why
}

// declined returns what a server's error means for the call: if it is not about the key, that the value is to be read whole.
func (c *conn) declined(err error) error {
	if err == nil || !isServerError(err) || passes(err) || redis.HasErrorPrefix(err, "WRONGTYPE") {
		return err
	}
	if _, asking, redirected := elsewhere(err); redirected && !asking { // each piece would want an ASKING
		return err
	}
	if redis.IsPermissionError(err) || redis.HasErrorPrefix(err, "ERR unknown command") {
		c.whole = true // nor will it be the next time
	}
	return errNotInPieces
}

// sendExec asks whether the key has not changed since it is watched.
func (c *conn) sendExec() error {
	if err := c.compose(2, len("MULTI")+len("EXEC")); err != nil {
		return err
	}
	c.composeExec()
	return c.flush()
}

// readExec reads the answer to a transaction of nothing: errNotInPieces if what is watched has changed.
func (c *conn) readExec() error {
	first := c.readStatus()
	if first != nil && !isServerError(first) {
		return first
	}
	h, err := c.readHeader()
	switch {
	case err == redis.Nil:
		c.watching = false
		return errNotInPieces
	case err != nil && !isServerError(err):
		return err
	case err == nil && first != nil:
		return badReply("results of a transaction that was refused")
	case err == nil && (h.kind != kindArray || h.n != 0):
		return badReply("%q of %d where no results should be", h.kind, h.n)
	case err == nil:
		c.watching = false
		return nil
	case first != nil:
		return c.declined(first)
	}
	if !redis.HasErrorPrefix(err, "EXECABORT") {
		c.broken = true // it may still be collecting commands
	}
	return c.declined(err)
}
