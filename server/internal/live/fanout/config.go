package fanout

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
)

// Config configures how a Fanout serves its viewers.
type Config struct {
	Log       *slog.Logger
	Counters  *Counters     // may be shared by several Fanouts
	Allowance broadcast.Lag // maximum lag of a viewer; 0: no limit
	Drop      bool          // disconnect viewers that exceed Allowance or lose frames
	Stall     time.Duration // disconnect viewers that accept no data for this long
}

// A source holds the configuration and the ring of a Fanout. All viewers of the Fanout use the same
// source.
type source struct {
	Config
	ring *broadcast.Ring
	end  atomic.Int32 // the Reason why the ring was closed; set before the ring is closed
}

// reason returns the Reason why the ring was closed, or Connected if the ring is open.
func (s *source) reason() Reason { return Reason(s.end.Load()) }

// ViewerConfig configures a viewer for [Fanout.NewViewer].
type ViewerConfig struct {
	Session Session
	Conn    Conn
	Remote  string // the client's address, for the log
	Peer    bool   // the client is another node of the cluster, which has no player
	Start   Start
}

// A Start is the position in the ring where a viewer begins.
type Start struct {
	Cursor *broadcast.Cursor
	// Lag is how much of the stream Cursor still has to take when the viewer starts. Until the
	// viewer has caught up for the first time, its lag may exceed Config.Allowance by this much.
	Lag broadcast.Lag
	Age time.Duration // age of the first frame that the player shows
}

// A Session represents the client of a viewer. It decides which frames the viewer gets.
//
// The goroutine that serves the viewer calls the methods. During a call, this goroutine may hold a
// mutex for which other viewers have to wait. The methods must therefore not block, log, or call
// SetPaused, Reply or a method of Fanout.
//
// Ended is called without the mutex, so these restrictions do not apply to Ended.
type Session interface {
	// Owned reports whether a viewer that is another node of the cluster may get frames now. It is
	// called only for such viewers (ViewerConfig.Peer).
	Owned() bool

	// Complete reports whether the end of the ring is the end of the stream. It is called only for
	// viewers that are other nodes of the cluster (ViewerConfig.Peer).
	Complete() bool

	// Begin is called with the first batch, and with each later batch that begins with the ring's
	// preamble. Begin borrows the batch, and may change it. The frames in the batch are complete.
	// The first frame begins at the given offset.
	Begin(batch *millrace.Chain, offset int)

	// Missed is called when the viewer has lost frames, because the ring has moved the viewer
	// forward. It is not called if the viewer is disconnected because Config.Drop is set. Missed
	// returns the age of the viewer's next frame.
	Missed(m broadcast.Missed) time.Duration

	// Restart returns the position in the ring at which a viewer continues after a pause. The
	// viewer takes ownership of the cursor.
	Restart() Start

	// Sent is called when the connection has accepted n bytes of the response.
	Sent(n int)

	// Ended is called once, after the viewer has released everything. sent is how many bytes of the
	// response the connection has accepted.
	Ended(why Reason, sent int64, missed broadcast.Missed)
}
