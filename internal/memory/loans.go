package memory

import (
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/lock"
)

// Loans are what answers hold that are being sent. The zero value is ready to use.
type Loans struct {
	mu   lock.Mutex
	list []*Loan // the oldest one first
}

// A Loan is what one answer holds.
type Loan struct {
	of    *Loans
	since time.Time
	bytes int64
	end   func()
	ended chan struct{} // nil, or closed when end has returned
}

// Add notes an answer that holds bytes. end ends it soon, and does not wait. The call that ends the Loan is Done.
func (l *Loans) Add(bytes int64, end func()) *Loan {
	loan := &Loan{of: l, since: time.Now(), bytes: bytes, end: end}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, loan)
	return loan
}

// Done says that the answer holds nothing any more. end is not called any more when Done has returned.
func (loan *Loan) Done() {
	l := loan.of
	l.mu.Lock()
	l.list = slices.DeleteFunc(l.list, func(other *Loan) bool { return other == loan })
	ended := loan.ended
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

// Bytes returns what all of them hold. Answers that share memory count it each.
func (l *Loans) Bytes() (sum int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, loan := range l.list {
		sum += loan.bytes
	}
	return sum
}

// Free ends answers that have taken longer than after, the oldest ones first. See [Step].
func (l *Loans) Free(excess int64, after time.Duration) (freed int64) {
	l.mu.Lock()
	var ending []*Loan
	for _, loan := range l.list {
		if freed >= excess || time.Since(loan.since) < after {
			break
		}
		freed += loan.bytes
		if loan.ended == nil {
			loan.ended = make(chan struct{})
			ending = append(ending, loan)
		}
	}
	l.mu.Unlock()
	for _, loan := range ending {
		loan.end()
		close(loan.ended)
	}
	return freed
}
