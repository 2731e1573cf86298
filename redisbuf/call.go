package redisbuf

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// do executes cmd, with as many tries as are allowed.
func (c *Client) do(ctx context.Context, cmd command) error {
	k := call{client: c, ctx: ctx, cmd: cmd.info()}
	return k.run(cmd)
}

// freeWeight is how many bytes a call may have in flight without being counted. So much for each
// connection is little.
const freeWeight = 16 << 10

// admit waits until weight bytes may be in flight. It returns how many of them are counted; the
// caller gives these back to c.inFlight. A call of a Conn does not wait, because the calls before
// it may wait for its connection.
func (c *Client) admit(ctx context.Context, weight int64) (counted int64, err error) {
	if weight <= freeWeight || c.sticky != nil {
		return 0, nil
	}
	counted = min(weight, c.settings.inFlight)
	return counted, c.inFlight.acquire(ctx, counted, 0)
}

// acquire returns a connection to n, which the caller gives back by release. It returns the error
// of a context that has ended, also while the call waited in admit.
func (c *Client) acquire(ctx context.Context, n *node) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.sticky != nil {
		return c.sticky.use(ctx, n)
	}
	return n.acquire(ctx)
}

// release gives a connection to n back. After a panic of the caller's reader or writer the
// connection is in the middle of a command.
func (c *Client) release(ctx context.Context, n *node, conn *conn) {
	if conn.calling {
		conn.broken = true
		_ = conn.finish(ctx, nil)
	}
	if c.sticky != nil {
		c.sticky.leave()
	} else {
		n.release(conn)
	}
}

// A call is a command with all of its tries: it finds the server, and decides whether to try again.
type call struct {
	client *Client
	ctx    context.Context
	cmd    *commandInfo

	node   *node // of the last try; nil if none was found
	target *node // of the next try; nil if the router decides
	asking bool  // the next try is preceded by ASKING
	tries  int   // after the first one
}

// run executes cmd.
func (k *call) run(cmd command) error {
	counted, err := k.client.admit(k.ctx, k.client.weightOf(cmd))
	if err != nil {
		return err
	}
	defer k.client.inFlight.release(counted)
	for {
		err := k.try(cmd)
		if err == nil {
			return nil
		}
		if err := k.prepare(err); err != nil {
			return err
		}
	}
}

// try executes cmd once.
func (k *call) try(cmd command) error {
	c, err := k.connect()
	if err != nil {
		return err
	}
	defer k.client.release(k.ctx, k.node, c)
	c.asking, k.asking = k.asking, false
	err = k.node.closedError(c.run(k.ctx, cmd))
	if err != nil && k.cmd.writes && c.broken && c.sent && !isServerError(err) {
		err = &SentError{Err: err}
	}
	return err
}

// connect returns a connection to the server for the next try. The caller gives it back by release.
func (k *call) connect() (*conn, error) {
	k.node, k.target = k.target, nil
	if k.node == nil {
		n, err := k.client.nodeOf(k.ctx, k.cmd.key)
		if err != nil {
			return nil, err
		}
		k.node = n
	}
	return k.client.acquire(k.ctx, k.node)
}

// prepare makes the call ready for another try after err, with the pause before it. If the call
// must not be retried, it returns the call's error.
func (k *call) prepare(err error) error {
	k.reload(err)
	again, pause := k.retryable(err)
	if !again {
		return err
	}
	if err := k.follow(err); err != nil {
		return err
	}
	if pause {
		return k.pause()
	}
	return nil
}

// reload starts a reload of the topology if err may mean that it has changed. It does so even if
// the call is not retried: the next call uses the right server.
func (k *call) reload(err error) {
	_, _, redirected := redirection(err)
	if isServerError(err) && !redirected && !isTransient(err) || !isServerError(err) &&
		!isLoss(err) {
		return
	}
	if reload := k.client.router.reload; reload != nil {
		reload(k.ctx)
	}
	if redis.IsReadOnlyError(err) && k.node != nil {
		k.node.reset() // a former master, or behind an address that leads to another server now
	}
}

// retryable reports whether the call may be tried again after err, and whether to pause before.
func (k *call) retryable(err error) (yes, pause bool) {
	if k.tries >= k.client.router.retries || k.cmd.used || k.client.sticky != nil {
		return false, false
	}
	if _, _, redirected := redirection(err); redirected {
		return k.client.router.redirects, false
	}
	if isServerError(err) {
		yes = isTransient(err)
	} else {
		yes = isLoss(err) && !isA[*SentError](err)
	}
	return yes, yes
}

// follow sends the next try to the server that err, which is retryable, redirects to. It returns
// the context's error if that has ended.
func (k *call) follow(err error) error {
	if ctxErr := k.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	addr, asking, redirected := redirection(err)
	if redirected {
		k.client.counters.redirects.Add(1)
		if k.target = k.nodeAt(addr); k.target != nil {
			k.asking = asking
		}
	}
	k.client.counters.retries.Add(1)
	k.tries++
	return nil
}

// nodeAt returns the node at an address that the last try's server has named, and nil if that is
// not an address.
func (k *call) nodeAt(addr string) *node {
	opt := *k.node.opt
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 || colon+1 == len(addr) {
		return nil
	}
	host, port := addr[:colon], addr[colon+1:]
	if host == "" { // the host of the server that says so
		var err error
		if host, _, err = net.SplitHostPort(opt.Addr); err != nil {
			return nil
		}
	}
	opt.Addr = net.JoinHostPort(strings.Trim(host, "[]"), port) // a server writes ::1:7000
	n, err := k.client.node(&opt)
	if err != nil {
		return nil
	}
	return n
}

// pause waits between two tries. It returns an error if the context or the Client ends meanwhile.
func (k *call) pause() error {
	minPause, maxPause := k.client.router.minPause, k.client.router.maxPause
	if minPause <= 0 || maxPause <= 0 {
		return nil
	}
	d := min(minPause<<max(k.tries-1, 0), maxPause)
	if d <= 0 {
		d = maxPause
	}
	return k.client.sleep(k.ctx, d/2+rand.N(d/2+1))
}

// redirection returns the address that a MOVED or ASK names, and whether the command needs an
// ASKING there.
func redirection(err error) (addr string, asking, redirected bool) {
	if !isServerError(err) {
		return "", false, false
	}
	if addr, asking = redis.IsAskError(err); asking {
		return addr, true, true
	}
	addr, redirected = redis.IsMovedError(err)
	return addr, false, redirected
}

// isLoss reports whether err, which is not a reply, says that a connection was lost or could not be
// made.
func isLoss(err error) bool {
	switch err.(type) {
	case nil, *ProtocolError, *BufferTooSmallError, *ValueTooLargeError, *ValueChangedError,
		*ReaderError, *WriterError:
		return false
	}
	switch {
	case errors.Is(err, ErrClosed), errors.Is(err, redis.ErrPoolTimeout),
		errors.Is(err, ErrOtherServer), errors.Is(err, ErrConnBusy):
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return isDialError(err) // the dial's own deadline
	}
	return true
}

// isTransient reports whether a reply says that the command was not executed, for a reason that
// passes.
func isTransient(err error) bool {
	return redis.IsLoadingError(err) || redis.IsTryAgainError(err) ||
		redis.IsClusterDownError(err) ||
		redis.IsMasterDownError(err) || redis.IsMaxClientsError(err) || redis.IsReadOnlyError(err)
}
