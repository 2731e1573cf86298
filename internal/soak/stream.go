package soak

import (
	"fmt"
	"sync"
)

// A stream is a name that one publisher after the other sends a film or a tape to.
type stream struct {
	name   string
	number int
	plain  bool // a tape
	size   int  // bytes a tick

	mu    sync.Mutex
	shows map[uint64]*show // of this cycle, by number
}

// A show is one film or tape, from its publisher's coming to its end.
type show struct {
	film film
	tape tape
	last int64 // number of the last tag, or length of the tape; valid if whole
	// whole is set before the end of the body is sent, and only if it has one.
	whole bool
}

func newStream(number, of, rate int) *stream {
	return &stream{
		name: fmt.Sprintf("soak-%d", number), number: number, plain: number == of-1 && of > 1,
		size: rate / 8 * int(tick.Milliseconds()) / 1000, shows: make(map[uint64]*show),
	}
}

// begin makes a show that viewers know from now on.
func (s *stream) begin(id uint64) *show {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := &show{film: newFilm(id, s.size), tape: tape{id}}
	s.shows[id] = sh
	return sh
}

// end says how long a show is.
func (s *stream) end(sh *show, last int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh.last, sh.whole = last, true
}

// forget lets go of what no viewer can see any more.
func (s *stream) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.shows)
}

// film finds a show by its number.
func (s *stream) film(id uint64) (film, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh := s.shows[id]; sh != nil {
		return sh.film, true
	}
	return film{}, false
}

func (s *stream) tapes() (list []tape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.shows {
		list = append(list, sh.tape)
	}
	return list
}

// endOf returns where a show ends, if it has come to its end as it should.
func (s *stream) endOf(id uint64) (last int64, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shows[id]
	if sh == nil {
		return 0, false
	}
	return sh.last, sh.whole
}
