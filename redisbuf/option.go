package redisbuf

import (
	"fmt"
	"time"
)

const (
	// defaultConns is how many connections a Client has to a server at most. Large values are limited by bytes a second,
	// which few connections use up.
	defaultConns = 16

	// defaultInFlight is how many bytes of values may be under way to and from all servers together. More would not be
	// faster; it would only have the small commands of others wait behind them.
	defaultInFlight = 64 << 20

	// defaultMaxValue is what Redis allows a value to have (proto-max-bulk-len).
	defaultMaxValue = 512 << 20

	// defaultIdle is how long a connection may go without use before it is closed.
	defaultIdle = 5 * time.Minute
)

// An Option changes what New makes. Options panic when a value is out of range.
type Option func(*settings)

type settings struct {
	conns                int
	inFlight             int64
	maxValue             int64
	piece                int64
	idle                 time.Duration
	lifetime             time.Duration
	idleSet, lifetimeSet bool
}

// Conns is the largest number of connections to a server. Calls beyond that wait for each other. The default is 16.
func Conns(n int) Option {
	if n < 1 || n > 1<<16 {
		panic(fmt.Sprintf("redisbuf: Conns(%d) is out of range", n))
	}
	return func(s *settings) { s.conns = n }
}

// InFlight is how many bytes of values may be under way at a time, to and from all servers together. Calls beyond that
// wait, in order, and one value that is larger goes alone. What GetChain and GetTo read counts as much as the value before it,
// and 1 MiB at least, because its length comes with it; MGet counts as its buffer. Calls of a Conn have their connection and do
// not wait, nor count. The default is 64 MiB.
func InFlight(bytes int64) Option {
	if bytes < 1 {
		panic(fmt.Sprintf("redisbuf: InFlight(%d) is below 1", bytes))
	}
	return func(s *settings) { s.inFlight = bytes }
}

// MaxValue bounds the length a server may announce. A longer one is a *ProtocolError, and the connection is closed. The
// default is 512 MiB, which is what Redis allows unless its proto-max-bulk-len is changed.
func MaxValue(bytes int64) Option {
	if bytes < 1 {
		panic(fmt.Sprintf("redisbuf: MaxValue(%d) is below 1", bytes))
	}
	return func(s *settings) { s.maxValue = bytes }
}

// Pieces has GetToBuffer ask for this many bytes of a value at a time when its buffer has room for two of them, and GetChain
// when the value before had as many: 512 KiB is a good choice. A server copies what it is asked for before it sends it, and does
// nothing else meanwhile: for 10 MiB that takes some milliseconds, for 512 KiB a tenth of one. With less, the round trips cost
// more than they save.
//
// The key is watched meanwhile (WATCH, STRLEN, GETRANGE, MULTI, EXEC), and the value is read whole if it has changed, or if the
// server does not allow these commands. So the connection must lead to one server: through a proxy that hands the commands of
// one client to several connections, as Envoy does, a value that changes could be torn. The default is 0, which reads all
// values whole.
func Pieces(bytes int64) Option {
	if bytes < 0 {
		panic(fmt.Sprintf("redisbuf: Pieces(%d) is below 0", bytes))
	}
	return func(s *settings) { s.piece = bytes }
}

// MaxIdle is how long a connection may go without use before it is closed. The default is that of the go-redis client
// (ConnMaxIdleTime), but 5 minutes at most. 0 means no limit.
func MaxIdle(d time.Duration) Option {
	notNegative("MaxIdle", d)
	return func(s *settings) { s.idle, s.idleSet = d, true }
}

// MaxLifetime is how long a connection lives before it is closed and replaced. The default is that of the go-redis
// client (ConnMaxLifetime). 0 means no limit.
func MaxLifetime(d time.Duration) Option {
	notNegative("MaxLifetime", d)
	return func(s *settings) { s.lifetime, s.lifetimeSet = d, true }
}

func notNegative(name string, d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("redisbuf: %s(%v) is below 0", name, d))
	}
}
