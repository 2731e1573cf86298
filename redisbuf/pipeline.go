package redisbuf

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"sync"

	"github.com/millrace-io/millrace"
	"github.com/redis/go-redis/v9"
)

const (
	// pipelineRequest is what commands of a pipeline are put together in before they are sent.
	pipelineRequest = 16 << 10

	// pipelineInbox is what headers and short values are received into together.
	pipelineInbox = 64 << 10
)

// A Pipeline collects calls, which Exec sends together and then reads the replies to: one round trip for all of them that
// go to one server. It borrows what they read from and write to until Exec or Reset, and keeps nothing of it alive after
// that. This is not a transaction: other clients' commands may run in between. Each call has its own error.
//
// What is sent before the first reply is read, and what the server may then have to hold for that, is bounded by InFlight: more
// than that takes more than one round trip.
//
// A Pipeline can be used again after Exec. Then it allocates nothing, if it has had as many calls before and they go to one
// server; several servers are asked at the same time, each from its own goroutine. It is for one goroutine at a time.
//
// Invariant: used ≤ len(calls), and all of calls[used:] and, between calls, groups borrow nothing.
type Pipeline struct {
	c        commands
	calls    []*Result
	used     int      // calls[:used] are collected
	groups   []*group // as many as there were servers in an Exec
	oneByOne bool     // the servers are asked one after the other
}

// A Result is what became of one call of a Pipeline. It is valid until the Pipeline is used for the next one.
type Result struct {
	call call
	done bool // it was executed, or refused
}

// Len returns how many bytes the value that was read has.
func (r *Result) Len() int64 { return r.call.n }

// Err returns the call's error: what the Client's method of the same name would have returned. Before Exec it is an error,
// too.
func (r *Result) Err() error {
	if !r.done {
		return errNotExecuted
	}
	return r.call.err
}

// Pipeline returns an empty Pipeline.
func (c commands) Pipeline() *Pipeline { return &Pipeline{c: c} }

// Reset forgets what was collected.
func (p *Pipeline) Reset() {
	for _, r := range p.calls {
		*r = Result{}
	}
	p.used, p.oneByOne = 0, false
}

// add collects a call.
func (p *Pipeline) add(op call) *Result {
	if p.used == len(p.calls) {
		p.calls = append(p.calls, new(Result))
	}
	r := p.calls[p.used]
	p.used++
	*r = Result{call: op}
	return r
}

// addSet collects a call that sets a key.
func (p *Pipeline) addSet(op call, opts []SetOption) *Result {
	op.set, op.err = combine(opts)
	return p.add(op)
}

// GetToBuffer collects what Client.GetToBuffer does.
func (p *Pipeline) GetToBuffer(key string, buf []byte) *Result {
	return p.add(call{verb: getToBuffer, key: key, buf: buf})
}

// GetRangeToBuffer collects what Client.GetRangeToBuffer does.
func (p *Pipeline) GetRangeToBuffer(key string, off int64, buf []byte) *Result {
	op := call{verb: getRange, key: key, off: off, size: int64(len(buf)), buf: buf}
	if len(buf) == 0 {
		op.verb = nothing // a GETRANGE of no bytes does not exist
	}
	if off < 0 {
		op.err = errOffset
	}
	return p.add(op)
}

// GetChain collects what Client.GetChain does.
func (p *Pipeline) GetChain(key string, dst *millrace.Chain, limit int) *Result {
	_ = dst.Len() // as in Client.GetChain
	return p.add(call{verb: getChain, key: key, chain: dst, size: int64(limit)})
}

// GetTo collects what Client.GetTo does.
func (p *Pipeline) GetTo(key string, w io.Writer) *Result {
	return p.add(call{verb: getTo, key: key, writer: w})
}

// GetRangeTo collects what Client.GetRangeTo does.
func (p *Pipeline) GetRangeTo(key string, off, n int64, w io.Writer) *Result {
	op := call{verb: getRangeTo, key: key, off: off, size: min(n, math.MaxInt64-off), writer: w}
	if n == 0 {
		op.verb = nothing
	}
	if off < 0 || n < 0 {
		op.err = errOffset
	}
	return p.add(op)
}

// SetFromBuffer collects what Client.SetFromBuffer does.
func (p *Pipeline) SetFromBuffer(key string, buf []byte, opts ...SetOption) *Result {
	return p.addSet(call{verb: setFromBuffer, key: key, buf: buf, size: int64(len(buf))}, opts)
}

// SetChain collects what Client.SetChain does.
func (p *Pipeline) SetChain(key string, src *millrace.Chain, opts ...SetOption) *Result {
	return p.addSet(call{verb: setChain, key: key, chain: src, size: int64(src.Len())}, opts)
}

// SetFile collects what Client.SetFile does.
func (p *Pipeline) SetFile(key string, f *os.File, opts ...SetOption) *Result {
	size, err := fileSize(f)
	r := p.addSet(call{verb: setFile, key: key, file: f, size: size}, opts)
	if err != nil {
		r.call.err = err
	}
	return r
}

// SetFrom collects what Client.SetFrom does.
func (p *Pipeline) SetFrom(key string, src io.Reader, n int64, opts ...SetOption) *Result {
	r := p.addSet(call{verb: setFrom, key: key, reader: src, size: n}, opts)
	if n < 0 {
		r.call.err = errOffset
	}
	return r
}

// Exec executes what was collected, in its order on each server, and returns the first error of a call, or nil. The calls'
// results stay valid until the Pipeline is used again.
//
// Calls that failed and are safe to retry are retried individually, which may put them behind calls of other keys. Calls
// of one key stay in their order: one that the server has refused, or that was lost, keeps its error if a later one of
// the same key was executed, or may have been, unless both of them read. (Only if go-redis learns in the middle of Exec
// that a key's slot has moved can two calls of it be on two servers at once.)
func (p *Pipeline) Exec(ctx context.Context) error {
	defer p.forget()
	collected := p.calls[:p.used]
	used := 0
	for _, r := range collected {
		if r.call.err != nil || r.call.verb == nothing {
			continue
		}
		g, err := p.groupOf(ctx, &used, r.call.key)
		if err != nil {
			r.call.err = err
			continue
		}
		g.calls = append(g.calls, &r.call)
	}
	p.run(ctx, p.groups[:used])
	var first error
	for _, r := range collected {
		r.done = true
		if slot := r.call.slot; slot != nil {
			if slot.fill(&r.call); slot.Err == redis.Nil {
				continue
			}
		}
		if first == nil {
			first = r.call.err
		}
	}
	return first
}

// forget gives back what the calls have borrowed, also after a panic in one of them.
func (p *Pipeline) forget() {
	for _, r := range p.calls[:p.used] {
		r.call = call{off: r.call.off, n: r.call.n, err: r.call.err}
	}
	p.used, p.oneByOne = 0, false
	for _, g := range p.groups {
		clear(g.calls)
		g.node, g.calls, g.panicked = nil, g.calls[:0], nil
	}
}

// A group is the calls of a pipeline that go to one server.
type group struct {
	commands
	node     *node
	calls    []*call
	panicked any // what a writer or reader has panicked with
}

// groupOf returns the group that key belongs to, of which the first used ones are in use.
func (p *Pipeline) groupOf(ctx context.Context, used *int, key string) (*group, error) {
	opt, err := p.c.client.router.route(ctx, key)
	if err != nil {
		return nil, err
	}
	n, err := p.c.client.node(opt)
	if err != nil {
		return nil, err
	}
	for _, g := range p.groups[:*used] {
		if g.node == n {
			return g, nil
		}
	}
	if *used == len(p.groups) {
		p.groups = append(p.groups, &group{commands: p.c})
	}
	g := p.groups[*used]
	g.node = n
	*used++
	return g, nil
}

// run executes groups, at the same time unless they have one connection.
func (p *Pipeline) run(ctx context.Context, groups []*group) {
	if len(groups) == 1 || p.c.pinned != nil || p.oneByOne {
		for _, g := range groups {
			g.run(ctx)
		}
		return
	}
	runAll(ctx, groups)
}

// errGoexit is what Exec panics with when a reader or writer has ended the goroutine of its group.
var errGoexit = errors.New("redisbuf: a reader or writer of a Pipeline has called runtime.Goexit")

// runAll executes groups at the same time. A panic in one of them is the caller's, who may recover from it.
func runAll(ctx context.Context, groups []*group) {
	var all sync.WaitGroup
	for _, g := range groups {
		all.Go(func() {
			returned := false
			defer func() {
				if g.panicked = recover(); g.panicked == nil && !returned {
					g.panicked = errGoexit // its calls have no results, and no errors either
				}
			}()
			g.run(ctx)
			returned = true
		})
	}
	all.Wait()
	for _, g := range groups {
		if g.panicked != nil {
			panic(g.panicked)
		}
	}
}

// run executes the calls in as few goes as InFlight allows. Those of a go for which it may help are executed again, by
// themselves, before the next one begins: they come before its calls. After a go that has lost the server there is no other.
func (g *group) run(ctx context.Context) {
	for rest := g.calls; len(rest) > 0; {
		n, weight := g.together(rest)
		these := rest[:n]
		rest = rest[n:]
		g.execute(ctx, these, weight)
		g.repair(ctx, these)
		for _, op := range these {
			if !isUnreached(op.err) {
				continue
			}
			err := op.err
			if isLoss(err) {
				err = errNotSent
			}
			for _, op := range rest {
				op.err = err
			}
			return
		}
	}
}

// together returns how many calls may be sent before the first reply is read, which is at least one, and how many bytes they
// have in flight.
func (g *group) together(calls []*call) (n int, weight int64) {
	most := g.client.settings.inFlight
	for i, op := range calls {
		more := op.weight(most, g.client.expected.Load())
		if i > 0 && weight+more > most {
			return i, weight
		}
		weight += more
	}
	return len(calls), weight
}

// execute executes calls in one go. If there is no connection, all have that error: what is tried again finds the way for its own
// key, which may not be that of the others any more.
func (g *group) execute(ctx context.Context, calls []*call, weight int64) {
	a := g.attempt(ctx, calls[0].key, reads, weight)
	a.target, a.final = g.node, true
	defer a.abandon()
	if !a.next() {
		for _, op := range calls {
			op.err = a.err
		}
		return
	}
	_ = a.conn.executeAll(ctx, calls)
	for _, op := range calls {
		if sent, ok := op.err.(*SentError); ok {
			sent.Err = a.node.endedBy(sent.Err)
		} else {
			op.err = a.node.endedBy(op.err)
		}
	}
	a.next()
}

// errNotSent is the error of the calls of a pipeline that come after one that cannot be sent as a whole. They are tried
// again.
var errNotSent = errors.New("redisbuf: not sent, because a call before it in the pipeline has failed")

// executeAll sends calls and then reads the replies. If the connection is lost, it gives an error to those without one.
func (c *conn) executeAll(ctx context.Context, calls []*call) error {
	err := c.begin(ctx)
	c.pipelined = true
	c.request.reset(pipelineRequest)
	composed, read := 0, 0
	if err == nil {
		composed, err = c.sendAll(calls)
	}
	switch {
	case err == nil:
		read, err = c.readAll(calls)
		lose(calls[read:], err, true)
	case isReaderError(err):
		// Half a command is the last that the server hears on this connection. Those before it are complete.
		lost := c.flush()
		sent := c.sentOf(calls[:composed])
		if lost == nil {
			read, lost = c.readAll(calls[:sent])
		}
		lose(calls[read:sent], lost, true)
		lose(calls[sent:composed], lost, false)
		calls[composed].err = err
		lose(calls[composed+1:], errNotSent, false)
	default:
		sent := c.sentOf(calls[:composed])
		if hungUpOn(err) { // what the server has said before may say why
			read, _ = c.readAll(calls[:sent])
		}
		lose(calls[read:sent], err, true)
		lose(calls[sent:], err, false)
		if read == sent && sent < len(calls) {
			calls[sent].err = c.lastWords(err)
		}
	}
	return c.finish(ctx, err)
}

// lose gives err to calls that have no reply, the first of which it is about.
func lose(calls []*call, err error, sent bool) {
	for i, op := range calls {
		op.err = err
		if sent && op.purpose() == writes {
			op.err = &SentError{Err: err}
		}
		if i > 0 {
			continue
		}
		switch err.(type) {
		case *WriterError, *ProtocolError, *BufferTooSmallError, *ValueTooLargeError, *ValueChangedError:
			err = ErrConnLost // which is all that it means for the others
		}
	}
}

// sendAll sends calls. If it returns an error, it has composed that many of them, and some of these may have left.
func (c *conn) sendAll(calls []*call) (composed int, err error) {
	for i, op := range calls {
		if err := c.send(op); err != nil {
			return i, err
		}
		op.end = c.pushed + int64(c.request.rest())
	}
	return len(calls), c.flush()
}

// sentOf returns how many of calls, which were composed, have left as a whole.
func (c *conn) sentOf(calls []*call) int {
	n := len(calls)
	for n > 0 && calls[n-1].end > c.written {
		n--
	}
	return n
}

// readAll reads the replies to calls, and returns how many have one, and why the next one has none.
func (c *conn) readAll(calls []*call) (read int, err error) {
	c.inbox.move(pipelineInbox)
	for i, op := range calls {
		if op.err = c.read(op); op.err != nil && (c.broken || !c.inOrder(op.err)) {
			return i, op.err
		}
	}
	return len(calls), nil
}

func isReaderError(err error) bool {
	_, is := err.(*ReaderError)
	return is
}
