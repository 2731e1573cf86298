package redisbuf

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// do executes cmd, and retries it as often as the options of the go-redis client allow.
func (c *Client) do(ctx context.Context, cmd command) error {
	if c.settings.onCall != nil {
		return c.doObserved(ctx, cmd)
	}
	k := call{client: c, ctx: ctx, cmd: cmd.info()}
	return k.run(cmd)
}

// A call with at most freeWeight bytes in flight needs so little memory that it does not count
// towards the MaxInFlight limit.
const freeWeight = 16 << 10

// admit waits until the MaxInFlight limit has room for a call that needs weight bytes. It returns
// the number of bytes that count towards the limit. The caller must pass this number to
// c.inFlight.release after the call.
//
// Two kinds of calls do not wait. For them, admit returns 0:
//
//   - Calls with at most freeWeight bytes.
//   - Calls of a Conn (a Client that keeps one connection for all calls). A wait could be a
//     deadlock, because the calls in flight may be waiting for the connection of the Conn.
func (c *Client) admit(ctx context.Context, weight int64) (counted int64, err error) {
	if weight <= freeWeight || c.sticky != nil {
		return 0, nil
	}
	counted = min(weight, c.settings.inFlight)
	return counted, c.inFlight.acquire(ctx, counted, 0)
}

// acquire returns a connection to the server n. The caller must return the connection with release.
// If ctx has ended, acquire returns the context's error.
func (c *Client) acquire(ctx context.Context, n *node) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if c.sticky != nil {
		return c.sticky.reserve(ctx, n)
	}
	return n.acquire(ctx)
}

// release returns a connection to the pool after a call. If the call has panicked, for example in
// the caller's io.Reader, the connection is in the middle of a command. In this case, release marks
// the connection as broken.
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

// A call executes one command, with retries.
type call struct {
	client *Client
	ctx    context.Context
	cmd    *commandInfo

	node   *node // server of the last try; nil if none was found
	target *node // server for the next try; nil if the router chooses it
	asking bool  // the next try must send ASKING before the command
	tries  int   // number of retries so far

	timedOut bool // a try has ended with a timeout, so a second timeout ends the call
}

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
		if err := k.prepareRetry(err); err != nil {
			return err
		}
	}
}

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

// connect returns a connection for the next try. The caller must return it with release.
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

// prepareRetry decides whether the call may be retried after err. If the call may be retried,
// prepareRetry chooses the server for the next try, and pauses if necessary. Otherwise prepareRetry
// returns the error that the call must return.
func (k *call) prepareRetry(err error) error {
	k.reload(err)
	again, pause := k.retryable(err)
	if !again {
		return err
	}
	if err := k.prepareTry(err); err != nil {
		return err
	}
	if pause {
		return k.pause()
	}
	return nil
}

// reload makes go-redis reload the topology if err may mean a change of the topology. Later calls
// need the new topology, even if this call is not retried.
func (k *call) reload(err error) {
	_, _, redirected := parseRedirection(err)
	if isServerError(err) && !redirected && !isTransient(err) || !isServerError(err) &&
		!isLoss(err) {
		return
	}
	if reload := k.client.router.reload; reload != nil {
		reload(k.ctx)
	}
	if redis.IsReadOnlyError(err) && k.node != nil {
		k.node.reset() // the address no longer leads to a master
	}
}

func (k *call) retryable(err error) (yes, pause bool) {
	if k.tries >= k.client.router.retries || k.cmd.used || k.client.sticky != nil {
		return false, false
	}
	if k.timedOut && isTimeout(err) {
		return false, false
	}
	if _, _, redirected := parseRedirection(err); redirected {
		return k.client.router.redirects, false
	}
	if isServerError(err) {
		yes = isTransient(err)
	} else {
		yes = isLoss(err) && !isA[*SentError](err)
	}
	return yes, yes
}

// prepareTry prepares the next try after err, which must be retryable. If err is a redirection, the
// next try uses the server that err names. If the context has ended, prepareTry returns the
// context's error.
func (k *call) prepareTry(err error) error {
	if ctxErr := k.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	k.timedOut = k.timedOut || isTimeout(err)
	addr, asking, redirected := parseRedirection(err)
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

// nodeAt returns the node for the address in a redirection, or nil if there is no such node.
func (k *call) nodeAt(addr string) *node {
	opt := *k.node.opt
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 || colon+1 == len(addr) {
		return nil
	}
	host, port := addr[:colon], addr[colon+1:]
	if host == "" { // an empty host means the server that sent the redirection
		var err error
		if host, _, err = net.SplitHostPort(opt.Addr); err != nil {
			return nil
		}
	}
	opt.Addr = net.JoinHostPort(strings.Trim(host, "[]"), port) // for IPv6, servers send ::1:7000
	n, err := k.client.node(&opt)
	if err != nil {
		return nil
	}
	return n
}

// pause waits before a retry. It returns an error if the context ends or the Client is closed.
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

// parseRedirection reports whether err is a MOVED or ASK error, and returns the address in it. If
// asking is true, the client must send ASKING to that address before the command.
func parseRedirection(err error) (addr string, asking, redirected bool) {
	if !isServerError(err) {
		return "", false, false
	}
	if addr, asking = redis.IsAskError(err); asking {
		return addr, true, true
	}
	addr, redirected = redis.IsMovedError(err)
	return addr, false, redirected
}

// isLoss reports whether err means that a connection was lost or could not be made. err must not be
// an error reply from the server.
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
		return isDialError(err) // a dial's timeout is a loss, the end of the call's context is not
	}
	return true
}

// isTransient reports whether err is an error reply for a temporary condition, such as LOADING. The
// server has not executed the command.
func isTransient(err error) bool {
	return redis.IsLoadingError(err) || redis.IsTryAgainError(err) ||
		redis.IsClusterDownError(err) ||
		redis.IsMasterDownError(err) || redis.IsMaxClientsError(err) || redis.IsReadOnlyError(err)
}
