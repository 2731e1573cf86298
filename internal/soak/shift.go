package soak

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// endPatience is how long clients may take to come to their end when a cycle is over. Only a mistake waits so long.
const endPatience = time.Minute

// retryPause is how long a client that could not do what it wanted waits.
const retryPause = 20 * time.Millisecond

// A shift is one cycle of work with one server. A client begins nothing new when working has ended, and gives up when hard
// has.
type shift struct {
	*server
	working context.Context
	hard    context.Context
	length  time.Duration
	number  int
}

// errLater says that a client may try again, for a reason that is no fault.
var errLater = errors.New("later")

// refusalPatience is how long a refusal that passes may be repeated. Only a mistake lasts so long.
const refusalPatience = time.Minute

// A patience has a client try again what is refused with a status that says so of a moment only.
type patience struct {
	status int
	since  time.Time // of the first refusal in a row
}

// with returns errLater instead of such a refusal, and other errors as they are.
func (p *patience) with(err error) error {
	var refused *statusError
	if !errors.As(err, &refused) || refused.status != p.status {
		p.since = time.Time{}
		return err
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	if time.Since(p.since) < refusalPatience {
		return errLater
	}
	return err
}

// work repeats what f does until the cycle is over. f gets the server's address. What fails is a fault, unless the
// server was being restarted meanwhile. If what came was wrong, it is a fault in any case.
func (s *shift) work(what string, f func(url string) error) {
	for s.working.Err() == nil {
		url, epoch, err := s.where(s.working)
		if err != nil {
			return
		}
		err = f(url)
		var bad *wrongError
		switch {
		case err == nil:
			continue
		case errors.As(err, &bad):
			s.faults.add("server %s, cycle %d: %s: %v", s.name, s.number, what, err)
		case s.excused(epoch):
			s.tally.Interrupted.Add(1)
		case errors.Is(err, errLater), errors.Is(err, context.Canceled) && s.working.Err() != nil && s.hard.Err() == nil:
		case s.hard.Err() != nil:
			s.faults.add("server %s, cycle %d: %s: did not come to its end within %v after the cycle's: %v",
				s.name, s.number, what, endPatience, err)
		default:
			s.faults.add("server %s, cycle %d: %s: %v", s.name, s.number, what, err)
		}
		pause(s.working, retryPause)
	}
}

// random returns the source of chance of one client of one cycle.
func (s *shift) random(kind, number int) *rand.Rand {
	return rand.New(rand.NewPCG(s.cfg.Seed^keyNumber(s.name), mix(uint64(s.number)<<32|uint64(kind)<<24|uint64(number))))
}

// Kinds of clients, for random.
const (
	kindPublisher = iota
	kindViewer
	kindFile
	kindBlob
	kindReader
	kindExpiry
)

// some is a time from nothing to d.
func some(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d) + 1)) }
