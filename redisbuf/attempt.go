package redisbuf

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
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

// freeWeight is what a call may weigh without being counted: it is not worth the count, and so many connections times that
// are little memory.
const freeWeight = 16 << 10

// An attempt is a call, with all of its tries: it finds the server and a connection, and decides whether to try again.
//
//	a := c.attempt(ctx, key, reads, weight)
//	for a.next() {
//		a.err = a.conn.…
//	}
//	return a.err
type attempt struct {
	commands
	ctx     context.Context
	key     string
	purpose purpose
	weight  int64 // bytes in flight

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

// enter waits until the call's bytes may be in flight. That of a Conn does not, because those that are ahead of it may wait
// for its connection.
func (a *attempt) enter() error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	if a.weight <= freeWeight || a.pinned != nil {
		a.weight = 0
		return nil
	}
	a.weight = min(a.weight, a.client.settings.inFlight)
	if a.client.inFlight.TryAcquire(a.weight) {
		return nil
	}
	return a.client.inFlight.Acquire(a.ctx, a.weight)
}

func (a *attempt) leave() {
	if a.weight > 0 {
		a.client.inFlight.Release(a.weight)
	}
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
		if a.err = a.conn.command(a.ctx, "ASKING"); a.err != nil {
			a.release() // nothing was done yet
			return a.err
		}
	}
	return nil
}

// settle gives the connection of a try back, and says in a.err what its error means.
func (a *attempt) settle() {
	c := a.conn
	if errors.Is(a.err, net.ErrClosed) && a.node.isShut() {
		a.err = ErrClosed
	}
	if a.err != nil && a.purpose == writes && c.broken && c.sent && !isServerError(a.err) {
		a.err = &SentError{Err: a.err}
	}
	a.release()
}

// release gives the connection back.
func (a *attempt) release() {
	a.conn = nil
	if a.pinned == nil {
		a.node.release(a.res)
	}
}

// again reports whether the call is to be tried again, after it has waited for that.
func (a *attempt) again() bool {
	worth, wait := a.worth()
	if !worth {
		return false
	}
	a.tries++
	return !wait || a.backOff()
}

// worth reports whether the call is to be tried again, and whether to wait before. It prepares the next try.
func (a *attempt) worth() (worth, wait bool) {
	most, _, _ := a.client.router.retries()
	if a.tries >= most || a.final || a.pinned != nil || a.ctx.Err() != nil {
		return false, false
	}
	switch addr, asked := redis.IsAskError(a.err); {
	case asked:
		a.redirect(addr)
		a.asking = true
		return true, false
	case isMoved(a.err, &addr):
		a.client.router.reload(a.ctx)
		a.redirect(addr)
		return true, false
	case redis.IsReadOnlyError(a.err):
		// A master that is a replica now. Connections to it lead nowhere.
		a.client.router.reload(a.ctx)
		a.node.conns.Reset()
	case isServerError(a.err):
		if !passes(a.err) {
			return false, false
		}
		a.client.router.reload(a.ctx)
	default:
		if !a.harmless() {
			return false, false
		}
		a.client.router.reload(a.ctx)
	}
	return true, true
}

// harmless reports whether nothing can go wrong when a command is tried again whose reply did not come.
func (a *attempt) harmless() bool {
	var sent *SentError
	var protocol *ProtocolError
	var small *BufferTooSmallError
	var large *ValueTooLargeError
	var changed *ValueChangedError
	var reader *ReaderError
	var writer *WriterError
	switch {
	case errors.As(a.err, &sent), errors.As(a.err, &protocol), errors.As(a.err, &small), errors.As(a.err, &large),
		errors.As(a.err, &changed), errors.As(a.err, &reader), errors.As(a.err, &writer):
		return false
	case errors.Is(a.err, ErrClosed), errors.Is(a.err, redis.ErrPoolTimeout):
		return false
	case errors.Is(a.err, context.Canceled), errors.Is(a.err, context.DeadlineExceeded):
		var dial *net.OpError
		return errors.As(a.err, &dial) && dial.Op == "dial" // its own deadline
	}
	return true
}

// passes reports whether a server's error is one that goes by, and says that the command was not executed.
func passes(err error) bool {
	return redis.IsLoadingError(err) || redis.IsTryAgainError(err) || redis.IsClusterDownError(err) ||
		redis.IsMasterDownError(err) || redis.IsMaxClientsError(err)
}

func isMoved(err error, addr *string) (moved bool) {
	*addr, moved = redis.IsMovedError(err)
	return moved
}

// redirect has the next try go to addr, whatever the topology says.
func (a *attempt) redirect(addr string) {
	opt := *a.node.opt
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return // not an address: the topology knows better
	}
	if host == "" { // the same as of the server that says so
		if host, _, err = net.SplitHostPort(opt.Addr); err != nil {
			return
		}
		addr = net.JoinHostPort(host, port)
	}
	opt.Addr = addr
	if n, err := a.client.node(&opt); err == nil {
		a.target = n
	}
}

// backOff waits between two tries, and reports whether the context has not ended meanwhile.
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
		return false
	}
}
