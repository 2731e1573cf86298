package bench

import (
	"fmt"
	"time"
)

// Effort is how much is done. More rounds make the spread more telling, longer turns each of them less noisy.
type Effort struct {
	Rounds int

	Turn time.Duration // of a contender in a case that has no server

	FilesTurn time.Duration // of a file server under load
	Clients   int           // of it

	RelayTurn time.Duration // that is measured, of a relay
	RelayRamp time.Duration // in which its viewers come, and as much again until they have settled
	Viewers   int           // of its one stream

	Record   time.Duration // that a load is recorded
	Interval time.Duration // between two samples of it
}

// mostRounds keeps a typing error from running for a day.
const mostRounds = 1000

// DefaultEffort takes about three minutes for all suites.
func DefaultEffort() Effort {
	return Effort{
		// The median of nine does not move when three of them are bad.
		Rounds: 9,
		// A garbage collection of a few milliseconds falls into each turn of those who make garbage, or many do.
		Turn: 60 * time.Millisecond,

		FilesTurn: 300 * time.Millisecond,
		// Enough that a server has always something to do, and few enough that the clients leave it a processor.
		Clients: 4,

		// A key frame comes every two seconds, so each turn has one.
		RelayTurn: 2500 * time.Millisecond,
		RelayRamp: 500 * time.Millisecond,
		Viewers:   200,

		Record: 4 * time.Second,
		// A collection or a burst can be told from its neighbours, and each sample has enough operations for a p99.
		Interval: 100 * time.Millisecond,
	}
}

// QuickEffort takes about twenty seconds for all suites: enough to see that all of them work, not to quote a figure.
func QuickEffort() Effort {
	return Effort{
		Rounds: 3, Turn: 5 * time.Millisecond,
		FilesTurn: 40 * time.Millisecond, Clients: 4,
		RelayTurn: 600 * time.Millisecond, RelayRamp: 200 * time.Millisecond, Viewers: 50,
		Record: 800 * time.Millisecond, Interval: 50 * time.Millisecond,
	}
}

// check refuses what cannot be meant.
func (e Effort) check() error {
	switch {
	case e.Rounds < 1 || e.Rounds > mostRounds:
		return fmt.Errorf("bench: --rounds is %d, want 1 to %d", e.Rounds, mostRounds)
	case e.Turn <= 0 || e.FilesTurn <= 0 || e.RelayTurn <= 0 || e.RelayRamp <= 0 || e.Record <= 0 || e.Interval <= 0:
		return fmt.Errorf("bench: every time of %+v must be more than 0", e)
	case e.Clients < 1 || e.Viewers < 1:
		return fmt.Errorf("bench: %d clients and %d viewers: want at least one of each", e.Clients, e.Viewers)
	}
	return nil
}
