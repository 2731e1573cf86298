package redisbuf

import (
	"context"
	"io"
	"os"

	"github.com/millrace-io/millrace"
)

// commands are what a Client and a Conn have in common.
type commands struct {
	client *Client
	pinned *pinned // the connection that all calls use; nil if each takes one from the pool
}

// A verb is what a call does.
type verb int8

const (
	getToBuffer verb = iota
	getPieces        // getToBuffer of what may be a long value
	getPacked
	getChain
	getChainPieces
	getTo
	getRange
	getRangeTo
	getVersion      // a range, if the value has the length that it is expected to have
	getVersionChain // the same
	strlen
	setFromBuffer
	setChain
	setFile
	setFrom
	nothing // is not sent
)

// A call is one command with what it reads to or from, and with its result. It borrows all of that.
type call struct {
	verb verb
	key  string

	buf    []byte // what is set, or where the value goes
	packed *packed
	slot   *Slot // says where in packed the value is
	chain  *millrace.Chain
	file   *os.File
	reader io.Reader
	writer io.Writer
	size   int64 // of file, reader or range; or the most that chain may get by one command
	off    int64 // of a range; or where in a packed buffer the value is
	length int64 // that a value must have; or the most that chain may get in pieces
	piece  int64 // how much of a value is asked for at a time
	plain  bool  // that is asked for without a transaction
	set    SetOption

	end int64 // where it ends in what was pushed for its pipeline

	n     int64 // bytes of the value
	final bool  // reader has been read from, or writer written to, so that there is no second try
	err   error
}

// purpose returns what the call may do if it fails in between.
func (op *call) purpose() purpose {
	if op.verb >= setFromBuffer && op.verb <= setFrom {
		return writes
	}
	return reads
}

// weight returns how many bytes the call probably has in flight, of which most is the limit. Of a value whose length nobody
// knows that is what it is expected to have.
func (op *call) weight(most, expected int64) int64 {
	return int64(len(op.key)) + min(op.valueWeight(max(expected, unknownWeight)), most)
}

func (op *call) valueWeight(unknown int64) int64 {
	switch op.verb {
	case getToBuffer, getRange, getVersion, setFromBuffer:
		return int64(len(op.buf))
	case getPieces, getChainPieces:
		return min(op.most(), 2*op.piece)
	case setChain:
		return int64(op.chain.Len())
	case setFile, setFrom, getRangeTo:
		return op.size
	case getChain, getVersionChain:
		return max(min(op.size, unknown), 0)
	case getPacked:
		return op.packed.share()
	case getTo:
		return unknown
	}
	return 0
}

// unknownWeight is the least weight of a value of unknown size: most are no larger, and those that are come in
// blocks of that many bytes.
const unknownWeight = 1 << 20

// do executes a call.
func (c commands) do(ctx context.Context, op *call) { c.doAt(ctx, op, nil, false) }

// doAt executes a call, and begins at target if that is not nil, with an ASKING if that is needed there.
func (c commands) doAt(ctx context.Context, op *call, target *node, asking bool) {
	a := c.attempt(ctx, op.key, op.purpose(), op.weight(c.client.settings.inFlight, c.client.expected.Load()))
	a.target, a.asking = target, asking
	defer a.abandon()
	for a.next() {
		a.err = a.conn.execute(ctx, op)
		a.final = op.final
	}
	op.err = a.err
}

// execute sends one call and reads the reply.
func (c *conn) execute(ctx context.Context, op *call) (err error) {
	if err = c.begin(ctx); err == nil {
		if err = c.send(op); err == nil {
			err = c.read(op)
		}
		err = c.lastWords(err)
	}
	return c.finish(ctx, err)
}

// send composes a call, and sends what does not fit into the last piece of it.
func (c *conn) send(op *call) error {
	switch op.verb {
	case getToBuffer, getPacked, getChain, getTo:
		return c.composeOne("GET", op.key)
	case getPieces, getChainPieces:
		return c.composePieces(op)
	case getRange, getRangeTo:
		return c.composeGetRange(op)
	case getVersion, getVersionChain:
		return c.composeVersion(op)
	case strlen:
		return c.composeOne("STRLEN", op.key)
	}
	if op.verb == setChain {
		op.size = int64(op.chain.Len())
	}
	if err := c.composeSet(op); err != nil {
		return err
	}
	var err error
	switch op.verb {
	case setFromBuffer:
		err = c.value(op.buf, op.size >= headStartLeast)
	case setChain:
		long := op.size >= headStartLeast
		for p := range op.chain.All() {
			if err = c.value(p, long); err != nil {
				break
			}
			long = false
		}
	case setFile:
		err = c.sendFile(op)
	case setFrom:
		err = c.sendFrom(op)
	}
	if err != nil {
		return err
	}
	c.request.end()
	op.set.appendTo(&c.request)
	if op.verb == setFrom || op.verb == setFile && !op.inRequest() {
		// The server may have hung up meanwhile, and no other event will say so: look for the reply before waiting for it.
		return c.flush()
	}
	return nil
}

// read reads the reply to a call that was sent.
func (c *conn) read(op *call) error {
	op.n = 0
	switch op.verb {
	case getToBuffer, getRange:
		return c.readToBuffer(op)
	case getPieces, getChainPieces:
		return c.readPieces(op)
	case getPacked:
		return c.readPacked(op)
	case getChain:
		return c.readToChain(op)
	case getVersion, getVersionChain:
		return c.readVersion(op)
	case strlen:
		return c.readInt(op)
	case getTo, getRangeTo:
		return c.readTo(op)
	}
	return c.readOK()
}

// compose makes room for a command with args arguments, of size bytes in all without the value.
func (c *conn) compose(args, size int) error {
	size += (args + 1) * argOverhead
	if c.request.fits(size) {
		return nil
	}
	if err := c.flush(); err != nil {
		return err
	}
	if c.pipelined {
		size = max(size, pipelineRequest)
	}
	c.request.reset(size)
	return nil
}

const (
	// headStart is how much of a long value is sent ahead of the rest. Redis takes a long argument over as it was received,
	// instead of copying it, if it has seen the command before all of that is there. On one machine, one system call with
	// both would be too quick for it.
	headStart = 64 << 10

	// headStartLeast is the shortest value for which that pays.
	headStartLeast = 1 << 20
)

// value has p sent after what was composed. If it is the beginning of a long value, that has a head start.
func (c *conn) value(p []byte, long bool) error {
	if err := c.push(c.part()); err != nil {
		return err
	}
	if long {
		n := min(len(p), headStart)
		if err := c.push(p[:n]); err != nil {
			return err
		}
		if err := c.wire.send(); err != nil {
			return err
		}
		p = p[n:]
	}
	return c.push(p)
}

// flush sends what was composed.
func (c *conn) flush() error {
	if err := c.push(c.part()); err != nil {
		return err
	}
	return c.wire.send()
}

// composeOne composes a command whose one argument is a key.
func (c *conn) composeOne(name, key string) error {
	if err := c.compose(2, len(name)+len(key)); err != nil {
		return err
	}
	c.array(2)
	c.arg(name)
	c.arg(key)
	return nil
}

// readInt reads a length.
func (c *conn) readInt(op *call) error {
	if err := c.awaitReply(); err != nil {
		return err
	}
	h, err := c.readHeader()
	if err != nil {
		return err
	}
	if h.kind != kindInt {
		return badReply("%q where a number should be", h.kind)
	}
	if h.n < 0 {
		return badReply("a length of %d", h.n)
	}
	op.n = h.n
	return nil
}
