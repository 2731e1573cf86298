package redisbuf

import (
	"errors"
	"fmt"
	"time"
)

const (
	defaultConns    = 16
	defaultInFlight = 64 << 20
)

// An Option configures New. Options panic if a value is out of range.
type Option func(*settings)

type settings struct {
	conns    int
	inFlight int64
}

// Conns is the largest number of connections to a server. Calls beyond that wait for each other.
// The default is 16: large values are limited by bytes a second, which few connections use up.
func Conns(n int) Option {
	if n < 1 || n > 1<<16 {
		panic(fmt.Sprintf("redisbuf: Conns(%d) is out of range", n))
	}
	return func(s *settings) { s.conns = n }
}

// InFlight is how many bytes of values may be on their way at a time, to and from all servers
// together. Calls beyond that wait, in order. A value that is larger goes alone. GetChain and GetTo
// count as much as the last value that one of them has read, and 1 MiB at least, because they do
// not know the length; MGet counts its buffer. Calls of up to 16 KiB and calls of a Conn do not
// wait, and are not counted. The default is 64 MiB: more is not faster, and holds up small
// commands.
func InFlight(bytes int64) Option {
	if bytes < 1 {
		panic(fmt.Sprintf("redisbuf: InFlight(%d) is below 1", bytes))
	}
	return func(s *settings) { s.inFlight = bytes }
}

// A SetOption configures a SET. Making one allocates nothing.
type SetOption struct {
	expiry string // PX or KEEPTTL; or empty
	ms     int64  // the argument of PX
	when   string // NX or XX; or empty
	args   int    // how many arguments appendTo adds
}

var (
	errTwoExpiries   = errors.New("redisbuf: two expiry options of one SET")
	errTwoConditions = errors.New("redisbuf: two conditions of one SET")
	errExpiry        = errors.New("redisbuf: an expiry of less than a millisecond")
)

// Expire has the value expire after d, rounded down to whole milliseconds (PX). A call with less
// than a millisecond fails.
func Expire(d time.Duration) SetOption {
	return SetOption{expiry: "PX", ms: d.Milliseconds(), args: 2}
}

// KeepTTL keeps the key's expiry (KEEPTTL). A SET without it removes the expiry.
func KeepTTL() SetOption { return SetOption{expiry: "KEEPTTL", args: 1} }

// IfAbsent sets the key only if it does not exist (NX).
func IfAbsent() SetOption { return SetOption{when: "NX", args: 1} }

// IfPresent sets the key only if it exists (XX).
func IfPresent() SetOption { return SetOption{when: "XX", args: 1} }

// combine returns one option with the effects of opts, of which at most one is an expiry, and one a
// condition.
func combine(opts []SetOption) (s SetOption, err error) {
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

// appendTo adds the option to a SET.
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
