package memory

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A shelf holds blocks of 1 MiB, which a step releases.
type shelf struct {
	pool   *millrace.Pool
	blocks []millrace.Draft
}

func (s *shelf) add(n int) {
	for range n {
		s.blocks = append(s.blocks, s.pool.Get(1<<20))
	}
}

func (s *shelf) free(excess int64) (freed int64) {
	for freed < excess && len(s.blocks) > 0 {
		s.blocks[0].Release()
		s.blocks = s.blocks[1:]
		freed += 1 << 20
	}
	return freed
}

// Steps are taken in the order of their marks, each down to its own mark, and later steps only if
// the earlier ones do not suffice.
func TestSteps(t *testing.T) {
	p := millrace.NewPool(millrace.IdleLimit(0))
	first, second, kept := &shelf{pool: p}, &shelf{pool: p}, &shelf{pool: p}
	b := New(16<<20, p, slog.New(slog.DiscardHandler))
	b.Add(Step{Name: "second", Above: 10, Free: second.free},
		Step{Name: "first", Above: 4, Free: first.free})
	state := func() [3]int {
		return [3]int{len(first.blocks), len(second.blocks), len(kept.blocks)}
	}

	first.add(3)
	second.add(1)
	if b.Check(); state() != [3]int{3, 1, 0} {
		t.Errorf("at the first mark: %v", state())
	}
	first.add(5)
	if b.Check(); state() != [3]int{3, 1, 0} {
		t.Errorf("above the first mark: %v", state())
	}
	second.add(9)
	if b.Check(); state() != [3]int{0, 10, 0} {
		t.Errorf("above both: %v", state())
	}
	if err := b.Admit(); err != nil {
		t.Errorf("at the second mark: %v", err)
	}
	kept.add(14)
	if err := b.Admit(); refuse.CauseOf(err) != refuse.Memory ||
		err.Error() != "the server's memory is in use: 24 of 16 MiB (--memory)" {
		t.Errorf("above the mark: %v", err)
	}
	if b.Check(); state() != [3]int{0, 0, 14} {
		t.Errorf("with what no step frees: %v", state())
	}
	st := b.Stats()
	if st.Used != 14<<20 || st.High != 24<<20 || st.Limit != 16<<20 || st.Refused != 1 ||
		st.Taken["first"] != 2 || st.Taken["second"] != 1 {
		t.Errorf("%+v, want the steps in their order", st)
	}
	kept.free(14 << 20)
	if err := b.Admit(); err != nil {
		t.Errorf("at the end: %v", err)
	}
}

// While the log blocks, publishers that need memory do not wait for it.
func TestTheLogBlocks(t *testing.T) {
	p := millrace.NewPool(millrace.IdleLimit(0))
	s := &shelf{pool: p}
	log := nettest.NewBlockingLog(slog.DiscardHandler)
	b := New(16<<20, p, slog.New(log))
	b.Add(Step{Name: "step", Above: 4, Free: s.free})
	defer log.Block()()
	for range 3 {
		s.add(16)
		if b.Check(); len(s.blocks) != 4 {
			t.Errorf("%d blocks are left", len(s.blocks))
		}
	}
	s.free(16 << 20)
}

// Idle memory is freed before memory in use.
func TestIdleBlocksGoFirst(t *testing.T) {
	p := millrace.NewPool()
	s := &shelf{pool: p}
	b := New(16<<20, p, slog.New(slog.DiscardHandler))
	b.Add(Step{Name: "step", Above: 12, Free: s.free})
	s.add(13)
	s.free(4 << 20)
	if b.Check(); p.Stats().Idle != 0 || len(s.blocks) != 9 {
		t.Errorf("%d bytes idle, %d blocks in use", p.Stats().Idle, len(s.blocks))
	}
	s.free(9 << 20)
}

// The heap memory that a step has freed counts as free at once, for Admit, too. Until a collection
// has confirmed it, no other step frees it again.
func TestStepsOfTheHeap(t *testing.T) {
	b := New(16<<20, millrace.NewPool(), slog.New(slog.DiscardHandler))
	var freed []int64
	later := 0
	b.Add(Step{Name: "heap", Above: 4, Heap: true, Free: func(excess int64) int64 {
		freed = append(freed, excess)
		return excess
	}}, Step{Name: "later", Above: 8, Free: func(int64) int64 { later++; return 0 }})
	b.heap.Store(14 << 20)
	if b.Admit() == nil {
		t.Error("admitted above the mark")
	}
	for range 3 {
		b.Check()
	}
	if !slices.Equal(freed, []int64{10 << 20}) || later != 0 {
		t.Errorf("freed %d, and later %d times", freed, later)
	}
	if err := b.Admit(); err != nil {
		t.Error(err)
	}
	b.cycles.Add(1) // a collection that was already running
	b.Check()
	b.heap.Store(5 << 20)
	b.cycles.Add(1)
	b.Check()
	if !slices.Equal(freed, []int64{10 << 20, 1 << 20}) || later != 0 {
		t.Errorf("after the collections: freed %d, and later %d times", freed, later)
	}
}

func TestNilBudget(t *testing.T) {
	var b *Budget
	b.Add(Step{})
	b.Check()
	if err := b.Admit(); err != nil || b.Stats().Limit != 0 || b.Stats().Mapped == 0 {
		t.Errorf("%v, %+v, want no limit and no refusal", err, b.Stats())
	}
	b.Run(t.Context())
}

// The heap outside the pool counts, as of the last garbage collection.
func TestHeapCounts(t *testing.T) {
	b := New(256<<20, millrace.DefaultPool(), slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	defer func() {
		stop()
		<-done
	}()
	// This is more than half of the budget, so that its release is noticed soon.
	const size = 160 << 20
	wait := func(what string, ok func(heap int64) bool) {
		deadline := time.Now().Add(time.Minute)
		for ; !ok(b.Stats().Heap); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v, want the heap counted", what, b.Stats())
			}
			garbage = make([]byte, 1<<20) // triggers a collection
		}
	}
	held = make([]byte, size)
	wait("it is in use", func(heap int64) bool { return heap >= size })
	held = nil
	wait("it has gone", func(heap int64) bool { return heap < size/2 })
}

var held, garbage []byte

// Responses that take long are ended, the oldest first, and no more than necessary.
func TestLoans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Loans
		var ended []int
		var loans []*Loan
		for i := range 4 {
			loans = append(loans, new(Loan))
			l.Add(loans[i], 100, func() { ended = append(ended, i) })
			time.Sleep(time.Second)
		}
		if n := l.Free(1000, 10*time.Second); n != 0 || ended != nil {
			t.Errorf("%d bytes of %v that have not taken long", n, ended)
		}
		if n := l.Free(150, 3*time.Second); n != 200 || !slices.Equal(ended, []int{0, 1}) ||
			!loans[1].Ended() || loans[2].Ended() {
			t.Errorf("%d bytes of %v", n, ended)
		}
		loans[0].Done()
		if n := l.Free(1000, 2*time.Second); n != 200 || !slices.Equal(ended, []int{0, 1, 2}) {
			t.Errorf("%d bytes of %v", n, ended)
		}
		if n := l.Bytes(); n != 300 {
			t.Errorf("%d bytes are lent, want 300", n)
		}
		for _, loan := range loans {
			loan.Done()
			loan.Done()
		}
		if n := l.Bytes(); n != 0 {
			t.Errorf("%d bytes at the end", n)
		}
	})
}

// Loans within a limit are ended for new ones, the oldest first. Renewed loans are not ended.
func TestLoansWithinALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Loans
		var ended []int
		var loans []*Loan
		add := func(bytes int64) error {
			i := len(loans)
			loan := new(Loan)
			err := l.AddWithin(loan, 300, time.Second, bytes,
				func() { ended = append(ended, i) })
			if err == nil {
				loans = append(loans, loan)
			}
			return err
		}
		for range 3 {
			if err := add(100); err != nil {
				t.Fatal(err)
			}
		}
		if err := add(100); err != ErrFull || ended != nil {
			t.Errorf("while all are new: %v, %v are ended", err, ended)
		}
		time.Sleep(time.Second)
		if !loans[0].Renew() {
			t.Error("the first one was ended")
		}
		if err := add(100); err != nil || !slices.Equal(ended, []int{1}) || loans[1].Renew() {
			t.Errorf("when one has taken long: %v, %v are ended", err, ended)
		}
		if err := loans[3].Grow(300, time.Second, 100); err != nil ||
			!slices.Equal(ended, []int{1, 2}) {
			t.Errorf("growing: %v, %v are ended", err, ended)
		}
		time.Sleep(time.Second)
		if err := add(200); err != ErrFull || len(ended) != 4 { // none of the 500 bytes have been returned
			t.Errorf("while those that were ended hold as much: %v, %v are ended", err, ended)
		}
		if err := loans[0].Grow(300, time.Second, 1); err != ErrFull {
			t.Errorf("growing when it was ended: %v", err)
		}
		for _, loan := range loans {
			loan.Done()
		}
		if err := add(300); err != nil || l.Bytes() != 300 {
			t.Errorf("at the end: %v, %d bytes", err, l.Bytes())
		}
		var none Loan
		none.Done()
		if err := none.Grow(1, 0, 2); err != nil || !none.Renew() {
			t.Error("no Loan")
		}
	})
}

// A Loan can be used again after Done, even if it was ended.
func TestLoanIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Loans
		var loan, other Loan
		ended := 0
		for range 3 {
			l.Add(&other, 10, func() {})
			if err := l.AddWithin(&loan, 0, 0, 100, func() { ended++ }); err != nil ||
				loan.Empty() || loan.Ended() || !loan.Renew() || l.Bytes() != 110 {
				t.Fatalf("%v, %d bytes, want a new Loan", err, l.Bytes())
			}
			other.Done()
			time.Sleep(time.Second)
			if l.Free(1, time.Second) != 100 || !loan.Ended() || loan.Renew() {
				t.Error("the Loan was not ended")
			}
			loan.Done()
			if !loan.Empty() || loan.Ended() || !loan.Renew() || l.Bytes() != 0 {
				t.Errorf("%d bytes after Done, want an empty Loan", l.Bytes())
			}
		}
		if ended != 3 {
			t.Errorf("ended %d times, want 3", ended)
		}
	})
}

// The oldest Loans are ended first, also after any sequence of calls.
func TestLoansAgainstAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		var l Loans
		var all [8]Loan
		var list, ended []int // the Loans in their order, and the ended Loans
		for range 10_000 {
			time.Sleep(time.Second)
			i := rnd.IntN(len(all))
			at := slices.Index(list, i)
			switch op := rnd.IntN(4); {
			case op == 0 && at < 0:
				l.Add(&all[i], 1, func() { ended = append(ended, i) })
				list = append(list, i)
			case op == 1 && at >= 0:
				all[i].Done()
				list = slices.Delete(list, at, at+1)
			case op == 2:
				if all[i].Renew() && at >= 0 {
					list = append(slices.Delete(list, at, at+1), i)
				}
			case op == 3 && rnd.IntN(4) == 0:
				ended = nil
				want := slices.DeleteFunc(slices.Clone(list[:min(2, len(list))]),
					func(i int) bool { return all[i].Ended() })
				if n := l.Free(2, 0); n != int64(min(2, len(list))) ||
					!slices.Equal(ended, want) {
					t.Fatalf("%d bytes of %v, want %v", n, ended, want)
				}
			}
			if l.Bytes() != int64(len(list)) {
				t.Fatalf("%d bytes of %v", l.Bytes(), list)
			}
		}
	})
}
