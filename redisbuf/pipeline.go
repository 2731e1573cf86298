package redisbuf

import (
	"context"
	"sync"

	"github.com/millrace-io/millrace"
	"github.com/redis/go-redis/v9"
)

// A Pipeline collects calls that read a value into memory or set a value from memory. Exec sends
// the calls together, and then reads the replies. All calls to one server therefore take one round
// trip, or more if they exceed the MaxInFlight limit. Each call has its own error.
//
// The Pipeline borrows the calls' arguments until Exec returns.
//
// A Pipeline is not a transaction: the server may execute other clients' commands in between.
//
// Exec uses several servers at the same time, each in a separate goroutine.
//
// A Pipeline can be used again after Exec. It is for one goroutine at a time.
type Pipeline struct {
	c        *Client
	results  []*Result
	oneByOne bool // query the servers one after the other
}

// A Result is the result of one call of a Pipeline.
type Result struct {
	cmd  command // nil for a refused call, and after Exec
	n    int64
	err  error
	done bool // Exec has finished the call

	end int64 // value of conn.queued after this request
}

// Len returns the length of the value that was read.
func (r *Result) Len() int64 { return r.n }

// Err returns the error of the call, or nil. For the possible errors, see the method of Client, for
// example [Client.GetToBuffer]. Before Exec, the error says that the call was not executed.
func (r *Result) Err() error {
	if !r.done {
		return errNotExecuted
	}
	return r.err
}

// Pipeline returns an empty Pipeline.
func (c *Client) Pipeline() *Pipeline { return &Pipeline{c: c} }

func (p *Pipeline) reset() {
	for _, r := range p.results {
		r.cmd = nil
	}
	clear(p.results)
	p.results, p.oneByOne = p.results[:0], false
}

func (p *Pipeline) add(cmd command) *Result {
	r := &Result{cmd: cmd}
	p.results = append(p.results, r)
	return r
}

// addRefused adds a Result for a call that is not sent to a server. The argument err becomes the
// Result's error. It is nil if the call has nothing to do.
func (p *Pipeline) addRefused(err error) *Result {
	r := &Result{err: err}
	p.results = append(p.results, r)
	return r
}

// GetToBuffer adds a [Client.GetToBuffer] call to the Pipeline.
func (p *Pipeline) GetToBuffer(key string, buf []byte) *Result {
	return p.add(&getCmd{getHeader: wholeOf(key), buf: buf})
}

// GetRangeToBuffer adds a [Client.GetRangeToBuffer] call to the Pipeline.
func (p *Pipeline) GetRangeToBuffer(key string, off int64, buf []byte) *Result {
	switch {
	case off < 0:
		return p.addRefused(errOffset)
	case len(buf) == 0:
		return p.addRefused(nil)
	}
	return p.add(&getCmd{getHeader: rangeOf(key, off, int64(len(buf))), buf: buf})
}

// GetChain adds a [Client.GetChain] call to the Pipeline.
func (p *Pipeline) GetChain(key string, dst *millrace.Chain, limit int) *Result {
	_ = dst.Len() // a nil chain panics here
	return p.add(&getChainCmd{getHeader: wholeOf(key), dst: dst, limit: int64(limit)})
}

// SetFromBuffer adds a [Client.SetFromBuffer] call to the Pipeline. It borrows buf until Exec
// returns.
func (p *Pipeline) SetFromBuffer(key string, buf []byte, opts ...SetOption) *Result {
	set, err := newSetHeader(key, int64(len(buf)), opts)
	if err != nil {
		return p.addRefused(err)
	}
	return p.add(&setCmd{setHeader: set, buf: buf})
}

// SetChain adds a [Client.SetChain] call to the Pipeline. It borrows src until Exec returns.
func (p *Pipeline) SetChain(key string, src *millrace.Chain, opts ...SetOption) *Result {
	set, err := newSetHeader(key, int64(src.Len()), opts)
	if err != nil {
		return p.addRefused(err)
	}
	return p.add(&setChainCmd{setHeader: set, src: src})
}

// Exec executes the calls, and returns the first error of a call, or nil. It sends the calls to
// each server in the order in which they were added.
//
// Calls for the same key stay in order. But if the key's slot moves to another server during Exec,
// both servers may execute calls for the key at the same time.
//
// Exec retries failed calls one by one, if a retry is safe. If later calls for the same key may
// have been executed, it retries a call only if that call and the later calls are reads. A retried
// call may be executed after later calls for other keys.
func (p *Pipeline) Exec(ctx context.Context) error {
	defer p.reset() // also after a panic in one of the calls
	if p.c.settings.onCall != nil {
		if keys := p.keys(); len(keys) > 0 {
			return p.execObserved(ctx, keys)
		}
	}
	return p.exec(ctx, p.groups(ctx))
}

// keys returns the keys of the calls, except refused calls.
func (p *Pipeline) keys() (keys []string) {
	for _, r := range p.results {
		if r.cmd != nil {
			keys = append(keys, r.cmd.info().key)
		}
	}
	return keys
}

// exec executes the calls, grouped by server, and returns the first error.
func (p *Pipeline) exec(ctx context.Context, groups []*group) (first error) {
	p.run(ctx, groups)
	for _, r := range p.results {
		r.done = true
		if m, ok := r.cmd.(*mgetCmd); ok {
			if m.slot.Err = r.err; r.err == redis.Nil {
				continue
			}
		}
		if first == nil {
			first = r.err
		}
	}
	return first
}

// groups returns the calls, grouped by server. A call that has no server gets an error.
func (p *Pipeline) groups(ctx context.Context) (groups []*group) {
	for _, r := range p.results {
		if r.cmd == nil {
			continue
		}
		r.err = errNotExecuted // remains if the user's Dialer calls runtime.Goexit
		n, err := p.c.nodeOf(ctx, r.cmd.info().key)
		if err != nil {
			r.err = err
			continue
		}
		i := 0
		for i < len(groups) && groups[i].node != n {
			i++
		}
		if i == len(groups) {
			groups = append(groups, &group{client: p.c, node: n})
		}
		groups[i].calls = append(groups[i].calls, r)
	}
	return groups
}

// run executes the calls of the Pipeline in groups, one for each server. The groups run
// concurrently, unless they share a connection or a buffer.
func (p *Pipeline) run(ctx context.Context, groups []*group) {
	if len(groups) > 1 && p.c.sticky == nil && !p.oneByOne {
		runAll(ctx, groups)
		return
	}
	for _, g := range groups {
		g.run(ctx)
	}
}

// runAll executes groups concurrently. If the user's Dialer or credentials provider panics, runAll
// waits for all groups, and panics with the same value.
func runAll(ctx context.Context, groups []*group) {
	var all sync.WaitGroup
	for _, g := range groups {
		all.Go(func() {
			defer func() { g.panicked = recover() }()
			g.run(ctx)
		})
	}
	all.Wait()
	for _, g := range groups {
		if g.panicked != nil {
			panic(g.panicked)
		}
	}
}
