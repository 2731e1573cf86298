package redisbuf

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	defaultConns    = 16
	defaultInFlight = 64 << 20
)

// An Option configures New. The functions that return Options panic if a value is out of range.
type Option func(*settings)

type settings struct {
	conns    int
	inFlight int64
	onCall   func(context.Context, CallInfo) func(CallResult) // may be nil
}

// MaxConns sets the maximum number of connections to each server. If all are in use, further calls
// wait. The default is 16. More connections do not make large values faster, because a few
// connections already use the whole bandwidth.
func MaxConns(n int) Option {
	if n < 1 || n > 1<<16 {
		panic(fmt.Sprintf("redisbuf: MaxConns(%d) is out of range", n))
	}
	return func(s *settings) { s.conns = n }
}

// MaxInFlight limits the total bytes of values in flight, to and from all servers. The default is
// 64 MiB. A higher limit is not faster, and delays small commands.
//
// If a call would exceed the limit, it waits. Calls wait in order. A value that is larger than the
// limit is transferred alone.
//
// The number of bytes that a call has in flight depends on its kind:
//
//   - A call that sets a key counts the length of the value.
//   - A call that reads into a buffer counts the size of the buffer.
//   - GetRangeTo counts the length of the range.
//   - GetChain and GetTo do not know the length of the value before the server replies. They count
//     the length of the last value that either of them has read, but at least 1 MiB. GetChain
//     counts no more than its limit.
//
// Calls with at most 16 KiB, and all calls of a Conn, do not wait, and their bytes do not count.
func MaxInFlight(bytes int64) Option {
	if bytes < 1 {
		panic(fmt.Sprintf("redisbuf: MaxInFlight(%d) is below 1", bytes))
	}
	return func(s *settings) { s.inFlight = bytes }
}

// OnCall registers a function that the Client calls at the beginning of each call, for example to
// trace calls. The registered function, start, returns another function, done, which the Client
// calls at the end of the call. done may be nil.
//
// The time between start and done includes all retries, and the time that the call waits for a
// connection. An Exec of a [Pipeline] and an MGet are one call each. Each range that a [ReaderAt]
// reads is a call. start is not called for a call that uses no server, for example because an
// argument is invalid.
//
// start and done run in the goroutine of the call, with the context of the call. Several goroutines
// may call start at the same time. While start or done runs, the call holds no lock and no
// connection.
func OnCall(start func(ctx context.Context, call CallInfo) (done func(CallResult))) Option {
	return func(s *settings) { s.onCall = start }
}

// A SetOption configures a SET. Creating one allocates nothing.
type SetOption struct {
	expiry string // PX, KEEPTTL or empty
	ms     int64  // the argument of PX
	when   string // NX, XX or empty
	args   int    // number of arguments that appendTo adds
}

var (
	errTwoExpiries   = errors.New("redisbuf: two expiry options of one SET")
	errTwoConditions = errors.New("redisbuf: two conditions of one SET")
	errExpiry        = errors.New("redisbuf: an expiry of less than a millisecond")
)

// Expire makes the value expire after d, rounded down to whole milliseconds (PX). If d is less than
// a millisecond, the call fails.
func Expire(d time.Duration) SetOption {
	return SetOption{expiry: "PX", ms: d.Milliseconds(), args: 2}
}

// KeepTTL keeps the key's expiry (KEEPTTL). A SET without KeepTTL removes the expiry.
func KeepTTL() SetOption { return SetOption{expiry: "KEEPTTL", args: 1} }

// IfAbsent sets the key only if it does not exist (NX).
func IfAbsent() SetOption { return SetOption{when: "NX", args: 1} }

// IfPresent sets the key only if it exists (XX).
func IfPresent() SetOption { return SetOption{when: "XX", args: 1} }

// combineOptions returns one option with the effects of opts. At most one of them may set an
// expiry, and at most one may set a condition.
func combineOptions(opts []SetOption) (s SetOption, err error) {
	for _, opt := range opts {
		if opt.expiry != "" {
			if s.expiry != "" {
				return s, errTwoExpiries
			}
			if opt.ms <= 0 && opt.expiry != "KEEPTTL" {
				return s, errExpiry
			}
			s.expiry, s.ms = opt.expiry, opt.ms
		}
		if opt.when != "" {
			if s.when != "" {
				return s, errTwoConditions
			}
			s.when = opt.when
		}
		s.args += opt.args
	}
	return s, nil
}

func (s *SetOption) appendTo(q *request) {
	if s.expiry != "" {
		q.arg(s.expiry)
		if s.ms != 0 {
			q.intArg(s.ms)
		}
	}
	if s.when != "" {
		q.arg(s.when)
	}
}
