package memory

import (
	"container/list"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// Loans tracks the memory held by responses. The zero value is ready to use.
type Loans struct {
	mu    lock.Mutex
	list  list.List // of *Loan, least recently renewed first
	bytes int64     // sum of the loans in list
	going int64     // bytes of ended loans that are not yet done
}

// A Loan is the memory held by one response. A nil Loan holds nothing.
type Loan struct {
	of    *Loans
	place *list.Element // nil after Done
	since time.Time
	bytes int64
	end   func()
	ended chan struct{} // nil, or a channel that is closed when end has returned
}

// ErrFull is the refusal of a response because other responses hold all the memory for responses,
// and all of them make progress.
var ErrFull = Short(
	"answers that clients have not taken yet hold as much memory as they may").After(time.Second)

// Add records a response that holds the given number of bytes. The function end must cause the
// response to end soon, but must not wait until it has ended. The response must call Done when it
// has ended.
func (l *Loans) Add(bytes int64, end func()) *Loan {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.add(bytes, end)
}

// add is Add for callers that hold l.mu.
func (l *Loans) add(bytes int64, end func()) *Loan {
	loan := &Loan{of: l, since: time.Now(), bytes: bytes, end: end}
	loan.place = l.list.PushBack(loan)
	l.bytes += bytes
	return loan
}

// AddWithin is Add with a limit, in bytes, on the sum of all Loans; 0 means no limit. To make room
// it ends Loans, oldest first, that have not been renewed for at least the duration after. If that
// does not make enough room, it returns ErrFull. Loans that have been ended but are not yet done do
// not count towards the limit. But all Loans together with them hold at most twice the limit.
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

// Grow adds bytes to a Loan. It makes room like AddWithin, and returns ErrFull if there is not
// enough room or the Loan has been ended.
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

// fits reports whether there is room for the given number of further bytes. The caller holds l.mu.
func (l *Loans) fits(limit, bytes int64) bool {
	return limit == 0 || l.bytes-l.going+bytes <= limit && l.bytes+bytes <= 2*limit
}

// makeRoom selects Loans to end so that the given number of further bytes fit. The caller holds
// l.mu, and passes the result to endAll after unlocking.
func (l *Loans) makeRoom(limit int64, after time.Duration, bytes int64) []*Loan {
	excess := l.bytes - l.going + bytes - limit
	if limit == 0 || excess <= 0 {
		return nil
	}
	ending, _ := l.expire(excess, after, false)
	return ending
}

// expire selects Loans that have not been renewed for at least the duration after, oldest first,
// until they hold excess bytes. If again is set, Loans that have already been ended count towards
// excess. The caller holds l.mu, and passes the result to endAll after unlocking.
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

// endAll calls the end functions of the Loans.
func endAll(ending []*Loan) {
	for _, loan := range ending {
		loan.end()
		close(loan.ended)
	}
}

// Renew records that the client has received something. The Loan then counts as the newest. Renew
// returns false if the Loan has been ended.
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

// Done records that the response no longer holds memory. When Done returns, end is not running and
// will not be called. Further calls do nothing.
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

// Ended reports whether the Loan has been ended. Its end function may still be running.
func (loan *Loan) Ended() bool {
	loan.of.mu.Lock()
	defer loan.of.mu.Unlock()
	return loan.ended != nil
}

// Bytes returns the sum of all Loans. Memory shared by several responses is counted once for each.
func (l *Loans) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Free ends responses that have not been renewed for at least the duration after, oldest first. It
// implements the Free of a [Step].
func (l *Loans) Free(excess int64, after time.Duration) (freed int64) {
	l.mu.Lock()
	ending, freed := l.expire(excess, after, true)
	l.mu.Unlock()
	endAll(ending)
	return freed
}
