package memory

import (
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// Loans tracks the memory that responses use, and can end responses to free memory. The zero value
// is ready to use.
type Loans struct {
	mu             lock.Mutex
	oldest, newest *Loan // the ends of the list, in the order of Loan.since
	bytes          int64 // sum of all loans in the list
	going          int64 // sum of the ended loans that are still in the list
}

// A Loan is the memory that one response uses. The zero Loan is empty. Add fills an empty Loan, and
// Done empties it again. Only one goroutine at a time may call the methods of a Loan. A Loan that is
// not empty must not be copied.
type Loan struct {
	of           *Loans // nil if the Loan is empty
	older, newer *Loan  // neighbors in the list
	since        time.Time
	bytes        int64
	end          func()
	ended        chan struct{} // nil until the Loan is ended; closed when end has returned
}

// ErrFull means that a response must be refused. Responses that clients are still reading use all
// the memory that responses may use.
var ErrFull = Short(
	"answers that clients have not taken yet hold as much memory as they may").After(time.Second)

// Add lends the given number of bytes to a response. The loan must be empty, and l keeps a
// reference to it. The caller must call Done when the response has ended.
//
// If the memory is needed earlier, l calls the function cancel. This function must make the
// response end soon, and must return without waiting for the end.
func (l *Loans) Add(loan *Loan, bytes int64, cancel func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(loan, bytes, cancel)
}

// add is like Add, but the caller must hold l.mu.
func (l *Loans) add(loan *Loan, bytes int64, cancel func()) {
	*loan = Loan{of: l, since: time.Now(), bytes: bytes, end: cancel}
	l.push(loan)
	l.bytes += bytes
}

// push adds loan as the newest in the list. The caller must hold l.mu.
func (l *Loans) push(loan *Loan) {
	loan.older, loan.newer = l.newest, nil
	if loan.older != nil {
		loan.older.newer = loan
	} else {
		l.oldest = loan
	}
	l.newest = loan
}

// remove removes loan from the list. The caller must hold l.mu.
func (l *Loans) remove(loan *Loan) {
	if loan.older != nil {
		loan.older.newer = loan.newer
	} else {
		l.oldest = loan.newer
	}
	if loan.newer != nil {
		loan.newer.older = loan.older
	} else {
		l.newest = loan.older
	}
}

// AddWithin is like Add, but the sum of all Loans must not exceed maxBytes. If maxBytes is 0, there
// is no limit. To make room, AddWithin ends the oldest Loans, except Loans younger than minAge. The
// age of a Loan is the time since it was added or last renewed; see [Loan.Renew]. If there is still
// not enough room, AddWithin returns ErrFull, and loan stays empty.
//
// An ended Loan uses memory until Done is called, but it does not count toward maxBytes. If the sum
// of all Loans, including the ended Loans, would exceed 2*maxBytes, AddWithin also returns ErrFull.
func (l *Loans) AddWithin(loan *Loan, maxBytes int64, minAge time.Duration, bytes int64,
	cancel func()) error {
	l.mu.Lock()
	ending := l.makeRoom(maxBytes, minAge, bytes)
	fits := l.hasRoom(maxBytes, bytes)
	if fits {
		l.add(loan, bytes, cancel)
	}
	l.mu.Unlock()
	endAll(ending)
	if !fits {
		return ErrFull
	}
	return nil
}

// Grow adds bytes to the size of a Loan, and makes room as [Loans.AddWithin] does. If there is not
// enough room, or if this Loan was ended, Grow returns ErrFull.
func (loan *Loan) Grow(maxBytes int64, minAge time.Duration, bytes int64) error {
	l := loan.of
	if l == nil {
		return nil
	}
	l.mu.Lock()
	ending := l.makeRoom(maxBytes, minAge, bytes)
	fits := l.hasRoom(maxBytes, bytes) && loan.ended == nil
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

// hasRoom reports whether the limit of AddWithin allows another Loan of the given size. The caller
// must hold l.mu.
func (l *Loans) hasRoom(maxBytes, bytes int64) bool {
	return maxBytes == 0 || l.bytes-l.going+bytes <= maxBytes && l.bytes+bytes <= 2*maxBytes
}

// makeRoom marks the oldest Loans as ended to make room for the given number of bytes; see
// AddWithin. The caller must hold l.mu. It must then unlock l.mu, and pass the result to endAll.
func (l *Loans) makeRoom(maxBytes int64, minAge time.Duration, bytes int64) []*Loan {
	excess := l.bytes - l.going + bytes - maxBytes
	if maxBytes == 0 || excess <= 0 {
		return nil
	}
	ending, _ := l.expire(excess, minAge, false)
	return ending
}

// expire marks the oldest Loans as ended. It stops when the marked Loans use at least want bytes,
// or when the next Loan is younger than minAge. It returns the marked Loans and the number of bytes
// that they use. The caller must hold l.mu. It must then unlock l.mu, and pass the Loans to endAll.
//
// expire does not return Loans that an earlier call has marked. If countMarked is set, the bytes of
// these Loans still count towards want and towards the result freed.
func (l *Loans) expire(want int64, minAge time.Duration, countMarked bool) (marked []*Loan,
	freed int64) {
	for loan := l.oldest; loan != nil && freed < want; loan = loan.newer {
		if time.Since(loan.since) < minAge {
			break
		}
		if loan.ended == nil {
			loan.ended = make(chan struct{})
			l.going += loan.bytes
			marked = append(marked, loan)
		} else if !countMarked {
			continue
		}
		freed += loan.bytes
	}
	return marked, freed
}

// endAll calls the cancel function of each Loan. The caller must not hold Loans.mu.
func endAll(loans []*Loan) {
	for _, loan := range loans {
		loan.end()
		close(loan.ended)
	}
}

// Renew must be called when the client has received some data. It makes this Loan the newest Loan.
// When memory is needed, the oldest Loans are ended first. If this Loan was already ended, Renew
// returns false. If the Loan is empty, Renew returns true.
func (loan *Loan) Renew() bool {
	l := loan.of
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if loan.ended != nil {
		return false
	}
	loan.since = time.Now()
	l.remove(loan)
	l.push(loan)
	return true
}

// Done must be called when the response no longer uses the memory of the Loan. After Done has
// returned, the cancel function of the Loan is not running and is not called any more. If the
// Loan is empty, Done does nothing.
func (loan *Loan) Done() {
	l := loan.of
	if l == nil {
		return
	}
	l.mu.Lock()
	l.remove(loan)
	l.bytes -= loan.bytes
	if loan.ended != nil {
		l.going -= loan.bytes
	}
	l.mu.Unlock()
	if loan.ended != nil { // set only while the Loan is in the list
		<-loan.ended
	}
	*loan = Loan{}
}

// Empty reports whether Add has not been called since the last call of Done.
func (loan *Loan) Empty() bool { return loan.of == nil }

// Ended reports whether the Loan was ended. Its cancel function may still be running.
func (loan *Loan) Ended() bool {
	l := loan.of
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return loan.ended != nil
}

// Bytes returns the total size of all Loans in bytes. Memory that several responses share is
// counted once for each response.
func (l *Loans) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Free ends the oldest Loans to free memory. The argument want is the number of bytes to free. Free
// returns the number of bytes that will be free when Done has been called for the ended Loans. It
// does not end Loans younger than minAge (see [Loans.AddWithin]).
//
// Loans that were ended earlier, but for which Done has not been called yet, count toward want. A
// [Step] may therefore call Free repeatedly without ending too many Loans.
func (l *Loans) Free(want int64, minAge time.Duration) (freed int64) {
	l.mu.Lock()
	ending, freed := l.expire(want, minAge, true)
	l.mu.Unlock()
	endAll(ending)
	return freed
}
