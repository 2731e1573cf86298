package memory

import (
	"container/list"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// Loans tracks the memory that responses use, and can end responses to free memory. The zero value
// is ready to use.
type Loans struct {
	mu    lock.Mutex
	list  list.List // of *Loan, least recently renewed first
	bytes int64     // sum of all loans in list
	going int64     // sum of the ended loans that are still in list
}

// A Loan is the memory that one response uses. A nil Loan is empty.
type Loan struct {
	of    *Loans
	place *list.Element // nil after Done
	since time.Time
	bytes int64
	end   func()
	ended chan struct{} // nil until the Loan is ended; closed when end has returned
}

// ErrFull refuses a response. Other responses use all the memory that responses may use, and their
// clients are still reading them.
var ErrFull = Short(
	"answers that clients have not taken yet hold as much memory as they may").After(time.Second)

// Add adds a response that uses this many bytes. If the memory is needed, Loans calls end, which
// must make the response end soon, without waiting for the end. The response must call Done on the
// Loan when it has ended.
func (l *Loans) Add(bytes int64, end func()) *Loan {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(bytes, end)
}

// add adds a response that uses the given number of bytes, and returns its Loan. To end the
// response early, the Loans call the function end; see Add. l.mu is held.
func (l *Loans) add(bytes int64, end func()) *Loan {
	loan := &Loan{of: l, since: time.Now(), bytes: bytes, end: end}
	loan.place = l.list.PushBack(loan)
	l.bytes += bytes
	return loan
}

// AddWithin adds a Loan for a response, as Add does. If there is not enough room for the Loan,
// AddWithin returns ErrFull. limit is the maximum sum of all Loans, in bytes. A limit of 0 means no
// limit.
//
// To make room, AddWithin ends the oldest Loans. The parameter after is the minimum age of a Loan
// that may be ended. The age is the time since the Loan was added or last renewed; see
// [Loan.Renew].
//
// An ended Loan uses memory until its response calls Done, but it does not count toward limit. If
// the sum of all Loans, including the ended Loans, would exceed 2*limit bytes, AddWithin also
// returns ErrFull.
func (l *Loans) AddWithin(limit int64, after time.Duration, bytes int64, end func()) (*Loan,
	error) {
	l.mu.Lock()
	ending := l.makeRoom(limit, after, bytes)
	var loan *Loan
	if l.fits(limit, bytes) {
		loan = l.add(bytes, end)
	}
	l.mu.Unlock()
	endAll(ending)
	if loan == nil {
		return nil, ErrFull
	}
	return loan, nil
}

// Grow adds bytes to a Loan, if the sum of all Loans then does not exceed limit bytes. A limit of 0
// means no limit. If there is not enough room, or if this Loan was ended, Grow returns ErrFull.
//
// To make room, Grow ends the oldest Loans. The parameter after is the minimum age of a Loan that
// may be ended. The age is the time since the Loan was added or last renewed; see [Loan.Renew].
func (loan *Loan) Grow(limit int64, after time.Duration, bytes int64) error {
	if loan == nil {
		return nil
	}
	l := loan.of
	l.mu.Lock()
	ending := l.makeRoom(limit, after, bytes)
	fits := l.fits(limit, bytes) && loan.place != nil && loan.ended == nil
	if fits {
		loan.bytes += bytes
		l.bytes += bytes
	}
	l.mu.Unlock()
	endAll(ending)
	if !fits {
		return ErrFull
	}
	return nil
}

// fits reports whether the given number of bytes can be added within limit. l.mu is held.
func (l *Loans) fits(limit, bytes int64) bool {
	return limit == 0 || l.bytes-l.going+bytes <= limit && l.bytes+bytes <= 2*limit
}

// makeRoom marks the oldest Loans as ended, so that the given number of bytes fits into limit. The
// parameter after is the minimum time since a marked Loan was added or last renewed. l.mu is held.
// The caller must unlock l.mu, and then pass the result to endAll.
func (l *Loans) makeRoom(limit int64, after time.Duration, bytes int64) []*Loan {
	excess := l.bytes - l.going + bytes - limit
	if limit == 0 || excess <= 0 {
		return nil
	}
	ending, _ := l.expire(excess, after, false)
	return ending
}

// expire marks the oldest Loans as ended, until the marked Loans use at least excess bytes. The
// parameter after is the minimum time since a marked Loan was added or last renewed. l.mu is held.
//
// The result ending has the marked Loans. The caller must unlock l.mu, and then pass ending to
// endAll. The result freed is the number of bytes that the marked Loans use.
//
// If again is false, expire skips the Loans that an earlier call has marked. If again is true,
// expire counts the bytes of these Loans as well, but does not add the Loans to ending.
func (l *Loans) expire(excess int64, after time.Duration, again bool) (ending []*Loan,
	freed int64) {
	for e := l.list.Front(); e != nil && freed < excess; e = e.Next() {
		loan := e.Value.(*Loan)
		if time.Since(loan.since) < after {
			break
		}
		if loan.ended == nil {
			loan.ended = make(chan struct{})
			l.going += loan.bytes
			ending = append(ending, loan)
		} else if !again {
			continue
		}
		freed += loan.bytes
	}
	return ending, freed
}

// endAll calls the end function of each Loan in ending. The mutex Loans.mu must not be held.
func endAll(ending []*Loan) {
	for _, loan := range ending {
		loan.end()
		close(loan.ended)
	}
}

// Renew must be called when the client has received some data. It makes this Loan the newest one.
// When memory is needed, the oldest Loans are ended first. If this Loan was ended, Renew returns
// false.
func (loan *Loan) Renew() bool {
	if loan == nil {
		return true
	}
	l := loan.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if loan.ended != nil {
		return false
	}
	if loan.place != nil {
		loan.since = time.Now()
		l.list.MoveToBack(loan.place)
	}
	return true
}

// Done must be called when the response no longer uses the memory of the Loan. If the function end
// that was passed to Add is running, Done waits for it. After Done, end is not called any more.
// Done may be called several times.
func (loan *Loan) Done() {
	if loan == nil {
		return
	}
	l := loan.of
	l.mu.Lock()
	ended := loan.ended
	if loan.place != nil {
		l.list.Remove(loan.place)
		loan.place = nil
		l.bytes -= loan.bytes
		if ended != nil {
			l.going -= loan.bytes
		}
	}
	l.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// Ended reports whether the Loan was ended. Its end function may still be running.
func (loan *Loan) Ended() bool {
	loan.of.mu.Lock()
	defer loan.of.mu.Unlock()
	return loan.ended != nil
}

// Bytes returns the sum of all Loans. Memory that several responses share is counted once for each
// response.
func (l *Loans) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Free ends the oldest Loans, until the ended Loans use at least excess bytes. It returns the
// number of bytes that the ended Loans use. The count includes old Loans that were ended before, if
// their responses have not called Done yet.
//
// The parameter after is the minimum age of a Loan that may be ended. The age is the time since the
// Loan was added or last renewed; see [Loan.Renew]. The field Free of a [Step] may call this
// method.
func (l *Loans) Free(excess int64, after time.Duration) (freed int64) {
	l.mu.Lock()
	ending, freed := l.expire(excess, after, true)
	l.mu.Unlock()
	endAll(ending)
	return freed
}
