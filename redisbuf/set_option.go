package redisbuf

import (
	"errors"
	"time"
)

// A SetOption changes what a SET does. Making one allocates nothing.
type SetOption struct {
	expiry string // EX, PX, EXAT, PXAT or KEEPTTL
	at     int64
	when   string // NX, XX or IFEQ
	equal  string // what IFEQ compares with
}

var (
	errTwoExpiries   = errors.New("redisbuf: two options that say when a value expires")
	errTwoConditions = errors.New("redisbuf: two conditions on a SET")
	errExpiry        = errors.New("redisbuf: a value expires after a millisecond at least, and at a time after 1970")
)

// Expire has the value expire after d, rounded down to whole milliseconds (EX, PX), of which Redis wants one at least.
func Expire(d time.Duration) SetOption {
	if d%time.Second == 0 {
		return SetOption{expiry: "EX", at: int64(d / time.Second)}
	}
	return SetOption{expiry: "PX", at: d.Milliseconds()}
}

// ExpireAt has the value expire at t, rounded down to whole milliseconds (EXAT, PXAT). If t has passed, there is no value.
// Redis refuses times that it cannot count in milliseconds.
func ExpireAt(t time.Time) SetOption {
	if ms := t.UnixMilli(); ms%1000 != 0 && ms/1000 == t.Unix() {
		return SetOption{expiry: "PXAT", at: ms}
	}
	return SetOption{expiry: "EXAT", at: t.Unix()}
}

// KeepTTL leaves the key's expiry as it is (KEEPTTL). Otherwise a SET takes it away.
func KeepTTL() SetOption { return SetOption{expiry: "KEEPTTL"} }

// IfAbsent sets the key only if it does not exist (NX).
func IfAbsent() SetOption { return SetOption{when: "NX"} }

// IfPresent sets the key only if it exists (XX).
func IfPresent() SetOption { return SetOption{when: "XX"} }

// IfEqual sets the key only if its value is old (IFEQ). The server must support that: Redis from 8.4 on, Valkey from
// 8.1 on.
func IfEqual(old string) SetOption { return SetOption{when: "IFEQ", equal: old} }

// combine returns the one option that says what opts say together, at most one of each kind.
func combine(opts []SetOption) (s SetOption, err error) {
	for _, opt := range opts {
		if opt.expiry != "" {
			if s.expiry != "" {
				return s, errTwoExpiries
			}
			if opt.at <= 0 && opt.expiry != "KEEPTTL" {
				return s, errExpiry
			}
			s.expiry, s.at = opt.expiry, opt.at
		}
		if opt.when != "" {
			if s.when != "" {
				return s, errTwoConditions
			}
			s.when, s.equal = opt.when, opt.equal
		}
	}
	return s, nil
}

// args returns how many arguments of a SET the option is.
func (s *SetOption) args() (n int) {
	if s.expiry != "" {
		n++
		if s.at != 0 {
			n++
		}
	}
	if s.when != "" {
		n++
		if s.when == "IFEQ" {
			n++
		}
	}
	return n
}

// size returns at least how long the arguments are together.
func (s *SetOption) size() int {
	return len("KEEPTTL") + maxDigits + len("IFEQ") + len(s.equal)
}

func (s *SetOption) appendTo(q *request) {
	if s.expiry != "" {
		q.arg(s.expiry)
		if s.at != 0 {
			q.intArg(s.at)
		}
	}
	if s.when != "" {
		q.arg(s.when)
		if s.when == "IFEQ" {
			q.arg(s.equal)
		}
	}
}
