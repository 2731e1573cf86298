package fanout

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

// Config says how a Fanout serves its viewers.
type Config struct {
	Log       *slog.Logger
	Counters  *Counters     // several fanouts may share them
	Allowance broadcast.Lag // how far behind a viewer may be; 0: no limit
	Drop      bool          // disconnect a viewer that exceeds Allowance, or that lost frames
	Stall     time.Duration // disconnect a viewer that takes nothing for this long
}

// A source is the part of a Fanout that all viewers share.
type source struct {
	Config
	ring *broadcast.Ring
	end  atomic.Int32 // the Reason of viewers that get everything; set before the ring is closed
}

// reason returns why the ring was closed, or Connected.
func (s *source) reason() Reason { return Reason(s.end.Load()) }

// ViewerConfig describes a viewer to [Fanout.NewViewer].
type ViewerConfig struct {
	Session Session
	Conn    Conn
	Remote  string // the client's address, for the log
	Peer    bool   // the client is another node of the cluster, which plays nothing
	Start   Start
}

// A Start is where a viewer begins in the ring.
type Start struct {
	Cursor *broadcast.Cursor
	// Of Cursor at first, which Config.Allowance does not count until the viewer has caught up.
	Lag broadcast.Lag
	Age time.Duration // of the first frame that the player shows
}

// A Session knows the client of a viewer. It decides which frames the viewer gets.
//
// The goroutine that serves the viewer calls the methods. Except in Ended, a loop may be holding
// its mutex, and its other viewers wait: the methods must not block, log, or call SetPaused, Reply
// or a method of Fanout.
type Session interface {
	// Owned reports whether a peer may get frames now. It is called for peers only.
	Owned() bool

	// Complete reports whether the end of the ring is the end of the stream for a peer. It is
	// called for peers only.
	Complete() bool

	// Begin may change the first batch, and each batch that begins with the ring's preamble. The
	// batch has whole frames from the given offset on. Begin borrows it.
	Begin(batch *millrace.Chain, from int)

	// Missed is called when the ring has moved the viewer forward, unless Config.Drop ends the
	// viewer for it. It returns the age of the next frame.
	Missed(m broadcast.Missed) time.Duration

	// Restart returns the start of a viewer that has paused. The viewer owns the cursor.
	Restart() Start

	// Sent is called when the connection has taken n bytes of the response.
	Sent(n int)

	// Ended is called once, when the viewer holds nothing any more. sent counts the bytes of the
	// response that the connection has taken.
	Ended(why Reason, sent int64, missed broadcast.Missed)
}
