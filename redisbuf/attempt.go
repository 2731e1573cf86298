package redisbuf

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/jackc/puddle/v2"
	"github.com/redis/go-redis/v9"
)

// A purpose says what may be done when it is not known whether a command was executed.
type purpose int8

const (
	reads  purpose = iota // nothing changes if it is executed twice
	writes                // it must not be executed twice: in between, somebody else may have set the key
)

// freeWeight is what a call may weigh without being counted: it is not worth the count, and that much for every
// connection is little memory.
const freeWeight = 16 << 10

// An attempt is a call, with all of its tries: it finds the server and a connection, and decides whether to try again.
//
//	a := c.attempt(ctx, key, reads, weight)
//	defer a.abandon()
//	for a.next() {
//		a.err = a.conn.…
//	}
//	return a.err
type attempt struct {
	commands
	ctx     context.Context
	key     string
	purpose purpose
	weight  int64 // bytes that the call has in flight
	counted int64 // how many of them are taken from Client.inFlight

	node *node
	res  *puddle.Resource[*conn]
	conn *conn
	err  error // of the last try

	begun  bool
	final  bool // the target of the call's reader or writer has seen bytes: it cannot be tried again
	asking bool // the next command is preceded by ASKING
	target *node
	tries  int
}

func (c commands) attempt(ctx context.Context, key string, p purpose, weight int64) attempt {
	return attempt{commands: c, ctx: ctx, key: key, purpose: p, weight: weight}
}

// next reports whether there is a try to be made. If not, a.err is what the call returns, and everything was given back.
func (a *attempt) next() bool {
	if !a.begun {
		a.begun = true
		if a.err = a.enter(); a.err != nil {
			return false
		}
	} else if a.settle(); a.err == nil || !a.again() {
		a.leave()
		return false
	}
	for a.connect() != nil {
		if !a.again() {
			a.leave()
			return false
		}
	}
	return true
}

// enter waits until the call's bytes may be in flight. A call of a Conn does not wait, because those that are ahead of
// it may wait for its connection.
func (a *attempt) enter() error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	if a.weight <= freeWeight || a.pinned != nil {
		return nil
	}
	weight := min(a.weight, a.client.settings.inFlight)
	if !a.client.inFlight.TryAcquire(weight) {
		if err := wait(a.ctx, a.client.closing, a.client.inFlight, weight, 0); err != nil {
			return err
		}
	}
	a.counted = weight
	return nil
}

func (a *attempt) leave() {
	if a.counted > 0 {
		a.client.inFlight.Release(a.counted)
		a.counted = 0
	}
}

// abandon gives back what a panic in the caller's reader or writer has left. What the connection was in the
// middle of is unknown.
func (a *attempt) abandon() {
	if a.conn != nil {
		a.conn.broken = true
		_ = a.conn.finish(a.ctx, nil)
		a.release()
	}
	a.leave()
}

// connect gets a connection to the server that has the key.
func (a *attempt) connect() error {
	a.node = a.target
	if a.target = nil; a.node == nil {
		var opt *redis.Options
		if opt, a.err = a.client.router.route(a.ctx, a.key); a.err != nil {
			return a.err
		}
		if a.node, a.err = a.client.node(opt); a.err != nil {
			return a.err
		}
	}
	if a.pinned != nil {
		a.conn, a.err = a.pinned.use(a.ctx, a.node)
		return a.err
	}
	if a.res, a.err = a.node.acquire(a.ctx); a.err != nil {
		return a.err
	}
	a.conn = a.res.Value()
	if a.asking {
		a.asking = false
		if a.err = a.conn.beginAsking(a.ctx); a.err != nil {
			a.release() // nothing was done yet
			return a.err
		}
	}
	return nil
}

// settle gives the connection of a try back, and says in a.err what its error means.
func (a *attempt) settle() {
	c := a.conn
	a.err = a.node.endedBy(a.err)
	if a.err != nil && a.purpose == writes && c.broken && c.sent && !isServerError(a.err) {
		a.err = &SentError{Err: a.err}
	}
	a.release()
}

// release gives the connection back.
func (a *attempt) release() {
	a.conn = nil
	if a.pinned != nil {
		a.pinned.leave()
	} else {
		a.node.release(a.res)
	}
}

// again reports whether the call is to be tried again, after it has waited for that.
func (a *attempt) again() bool {
	a.passOn()
	worth, pause := a.worth()
	if !worth || !a.prepare() {
		return false
	}
	a.tries++
	return !pause || a.backOff()
}

// passOn passes on what a.err says of the topology, whether or not the call is tried again: the next one goes the right
// way.
func (a *attempt) passOn() {
	if !a.outdated() {
		return
	}
	a.client.router.reload(a.ctx)
	if redis.IsReadOnlyError(a.err) && a.node != nil {
		a.node.conns.Reset() // a master that is a replica now: connections to it lead nowhere
	}
}

// worth reports whether the call may be tried again, and whether to pause before.
func (a *attempt) worth() (worth, pause bool) {
	if most, _, _ := a.client.router.retries(); a.tries >= most || a.final || a.pinned != nil {
		return false, false
	}
	if _, _, redirected := elsewhere(a.err); redirected {
		return a.client.router.redirects(), false
	}
	if isServerError(a.err) {
		worth = passes(a.err)
	} else {
		worth = a.harmless()
	}
	return worth, worth
}

// prepare has the next try go where the server has said, if it has. It reports whether there is time for one: if not, the
// call's error is the context's.
func (a *attempt) prepare() bool {
	if err := a.ctx.Err(); err != nil {
		a.err = err
		return false
	}
	addr, asking, redirected := elsewhere(a.err)
	if redirected && a.redirect(addr) {
		a.asking = asking
	}
	a.client.counters.again(redirected)
	return true
}

// outdated reports whether a.err may mean that the topology has changed: a server says so, or was lost.
func (a *attempt) outdated() bool {
	if !isServerError(a.err) {
		return isLoss(a.err)
	}
	_, _, redirected := elsewhere(a.err)
	return redirected || passes(a.err)
}

// elsewhere returns the address that a server says its key is at, and whether the command there needs an ASKING.
func elsewhere(err error) (addr string, asking, redirected bool) {
	if addr, asking = redis.IsAskError(err); asking {
		return addr, true, true
	}
	addr, redirected = redis.IsMovedError(err)
	return addr, false, redirected
}

// harmless reports whether nothing can go wrong when a command whose reply did not come is tried again.
func (a *attempt) harmless() bool {
	var sent *SentError
	return isLoss(a.err) && !errors.As(a.err, &sent)
}

// isLoss reports whether err, which is no reply, says that a connection was lost, or not made.
func isLoss(err error) bool {
	var protocol *ProtocolError
	var small *BufferTooSmallError
	var large *ValueTooLargeError
	var changed *ValueChangedError
	var reader *ReaderError
	var writer *WriterError
	switch {
	case errors.As(err, &protocol), errors.As(err, &small), errors.As(err, &large), errors.As(err, &changed),
		errors.As(err, &reader), errors.As(err, &writer):
		return false
	case err == errNotInPieces, errors.Is(err, ErrClosed), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, ErrOtherServer),
		errors.Is(err, ErrConnBusy):
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		var dial *net.OpError
		return errors.As(err, &dial) && dial.Op == "dial" // its own deadline
	}
	return true
}

// passes reports whether a server's error is a transient one, and says that the command was not executed.
func passes(err error) bool {
	return redis.IsLoadingError(err) || redis.IsTryAgainError(err) || redis.IsClusterDownError(err) ||
		redis.IsMasterDownError(err) || redis.IsMaxClientsError(err) || redis.IsReadOnlyError(err)
}

// redirect has the next try go to addr, whatever the topology says, and reports whether it does: if that is no address, the
// topology knows better.
func (a *attempt) redirect(addr string) bool {
	opt := *a.node.opt
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 || colon+1 == len(addr) {
		return false
	}
	host, port := addr[:colon], addr[colon+1:]
	if host == "" { // the same as of the server that says so
		var err error
		if host, _, err = net.SplitHostPort(opt.Addr); err != nil {
			return false
		}
	}
	opt.Addr = net.JoinHostPort(strings.Trim(host, "[]"), port) // a server writes ::1:7000
	n, err := a.client.node(&opt)
	if err != nil {
		return false
	}
	a.target = n
	return true
}

// backOff waits between two tries, and reports whether the context has not ended meanwhile. If it has, its error is the
// call's.
func (a *attempt) backOff() bool {
	_, least, most := a.client.router.retries()
	if least <= 0 || most <= 0 {
		return true
	}
	d := min(least<<max(a.tries-1, 0), most)
	if d <= 0 {
		d = most
	}
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-a.ctx.Done():
		a.err = a.ctx.Err()
		return false
	}
}
