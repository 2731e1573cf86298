package memory

import (
	"container/list"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// Loans count the memory of responses under way. The zero value is ready to use.
type Loans struct {
	mu    lock.Mutex
	list  list.List // of *Loan, the one that was renewed least recently first
	bytes int64     // of all of them
	going int64     // bytes of loans that were ended
}

// A Loan is the memory of one response. A nil Loan holds nothing.
type Loan struct {
	of    *Loans
	place *list.Element // nil after Done
	since time.Time
	bytes int64
	end   func()
	ended chan struct{} // nil, or closed when end has returned
}

// ErrFull refuses a response while others hold all the memory for responses, and all of them make
// progress.
var ErrFull = Short(
	"answers that clients have not taken yet hold as much memory as they may").After(time.Second)

// Add notes an answer that holds bytes. end ends it soon, and does not wait. The call that ends the
// Loan is Done.
func (l *Loans) Add(bytes int64, end func()) *Loan {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(bytes, end)
}

// add is Add with l.mu held.
func (l *Loans) add(bytes int64, end func()) *Loan {
	loan := &Loan{of: l, since: time.Now(), bytes: bytes, end: end}
	loan.place = l.list.PushBack(loan)
	l.bytes += bytes
	return loan
}

// AddWithin is Add if all Loans then hold no more than limit bytes; 0 is no limit. To make room it
// ends Loans that have taken longer than after, the oldest ones first. If there is no room, it
// returns ErrFull. Loans that were ended, and have not come to Done yet, may hold as much again.
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

// Grow makes a Loan hold bytes more, under the conditions of AddWithin.
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

// fits reports whether there is room for bytes more. l.mu is held.
func (l *Loans) fits(limit, bytes int64) bool {
	return limit == 0 || l.bytes-l.going+bytes <= limit && l.bytes+bytes <= 2*limit
}

// makeRoom notes which Loans are to be ended for bytes more to fit. l.mu is held; the caller calls
// endAll without it.
func (l *Loans) makeRoom(limit int64, after time.Duration, bytes int64) []*Loan {
	excess := l.bytes - l.going + bytes - limit
	if limit == 0 || excess <= 0 {
		return nil
	}
	ending, _ := l.expire(excess, after, false)
	return ending
}

// expire ends the Loans without progress for longer than after, the oldest ones first, until they
// hold excess bytes. Those that were ended before count if again. l.mu is held; the caller calls
// endAll without it.
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

// endAll ends Loans.
func endAll(ending []*Loan) {
	for _, loan := range ending {
		loan.end()
		close(loan.ended)
	}
}

// Renew says that the client has taken something: the Loan is as new. It returns false if the Loan
// was ended.
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

// Done says that the answer holds nothing any more. end is not called any more when Done has
// returned. Done again does nothing.
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

// Ended reports whether end was called, or is being called.
func (loan *Loan) Ended() bool {
	loan.of.mu.Lock()
	defer loan.of.mu.Unlock()
	return loan.ended != nil
}

// Bytes returns the sum of all loans. Memory that responses share counts for each.
func (l *Loans) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Free ends answers that have taken longer than after, the oldest ones first. See [Step].
func (l *Loans) Free(excess int64, after time.Duration) (freed int64) {
	l.mu.Lock()
	ending, freed := l.expire(excess, after, true)
	l.mu.Unlock()
	endAll(ending)
	return freed
}
