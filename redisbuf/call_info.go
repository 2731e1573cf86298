package redisbuf

import (
	"context"
	"errors"
)

// A CallInfo describes a call before it starts. See [OnCall].
type CallInfo struct {
	// Op is GET, GETRANGE, STRLEN or SET, or PIPELINE for a Pipeline and an MGet.
	Op string

	Keys []string // the key of the call, or all keys of a Pipeline or MGet, in order
}

// A CallResult describes a finished call. See [OnCall].
type CallResult struct {
	// Err is the error of the call, or nil. It is redis.Nil if there is no such key. If the call
	// has panicked, Err says so.
	Err error

	// Bytes is the number of bytes of values that were read or set. After an error, it may be less
	// than the length of the value.
	Bytes int64

	// Addr is the address of the server, or of a Sentinel's master. It is empty if the call has
	// used no server or several servers.
	Addr string

	Retries int // number of retries, including redirections
}

var errPanicked = errors.New("redisbuf: the call has panicked")

// observe executes run, which must store its result in r, and reports the call to OnCall.
func (c *Client) observe(ctx context.Context, info CallInfo, run func(r *CallResult)) {
	done := c.settings.onCall(ctx, info)
	r := CallResult{Err: errPanicked}
	if done != nil {
		defer func() { done(r) }()
	}
	run(&r)
}

func (c *Client) doObserved(ctx context.Context, cmd command) (err error) {
	info := cmd.info()
	c.observe(ctx, CallInfo{Op: cmd.op(), Keys: []string{info.key}}, func(r *CallResult) {
		k := call{client: c, ctx: ctx, cmd: info}
		defer func() { // even if the call panics
			r.Bytes, r.Retries = movedBytes(cmd, r.Err), k.tries
			if k.node != nil {
				r.Addr = k.node.addr()
			}
		}()
		r.Err = k.run(cmd)
		err = r.Err
	})
	return err
}

func (p *Pipeline) execObserved(ctx context.Context, keys []string) (err error) {
	p.c.observe(ctx, CallInfo{Op: "PIPELINE", Keys: keys}, func(r *CallResult) {
		groups := p.groups(ctx)
		defer func() { // even if the call panics
			for _, g := range groups {
				r.Retries += g.retries
			}
			for _, call := range p.results {
				if call.cmd != nil {
					r.Bytes += movedBytes(call.cmd, call.err)
				}
			}
			if len(groups) == 1 {
				r.Addr = groups[0].node.addr()
			}
		}()
		r.Err = p.exec(ctx, groups)
		err = r.Err
	})
	return err
}

// movedBytes returns the number of bytes of the value that cmd has read or set. err may be nil.
func movedBytes(cmd command, err error) int64 {
	if err != nil && cmd.info().writes {
		return 0
	}
	return cmd.bytes()
}
