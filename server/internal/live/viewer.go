package live

import (
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// A Viewer is a client that watches a rendition: who it is, and where it begins. Its transport
// sends the frames; the viewer is the [fanout.Session] of it.
type Viewer struct {
	hub       *Hub
	stream    *stream
	rendition *rendition.Rendition
	remote    string
	account   *address.Account // of its address
	since     int64            // when it came; see now
	id        uint64           // its number among all viewers, set by Admission.noteServed

	// Of another node: its address, and the ownership without which it gets nothing. Otherwise nil.
	node  string
	lease Lease

	terms  Terms
	timeUp *time.Timer // nil without a limit

	// Where it begins; it has no cursor until that is known, and after Connect.
	start     fanout.Start
	transport *fanout.Viewer // writes to it; nil until connect
}

// exit removes v from its stream.
func (v *Viewer) exit() {
	s := v.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.lease == nil {
		s.leave()
	}
	s.forms.Leave(v.rendition)
}

// Connect creates the transport, and returns it. It takes ownership of conn. The caller appends the
// head of its response, and then calls Admission.Start or Admission.Serve.
func (v *Viewer) Connect(conn fanout.Conn) *fanout.Viewer {
	v.transport = v.rendition.Fanout().NewViewer(fanout.ViewerConfig{
		Session: v, Conn: conn, Remote: v.remote, Peer: v.lease != nil, Start: v.start})
	v.start = fanout.Start{}
	return v.transport
}

// Format returns the format that v gets.
func (v *Viewer) Format() rendition.Format { return v.rendition.Format() }

// Head returns the bytes that v gets before any frame.
func (v *Viewer) Head() []byte { return v.rendition.Head() }

// Epoch returns that of the ownership if v is another node, or 0.
func (v *Viewer) Epoch() uint64 {
	if v.lease == nil {
		return 0
	}
	return v.lease.Epoch()
}

// attrs returns v's log attributes. They tell another node from a viewer.
func (v *Viewer) attrs() []any {
	attrs := []any{"viewer", v.remote}
	if v.node != "" {
		attrs = append(attrs, "node", v.node)
	}
	return append(attrs, "form", v.rendition.Format().String())
}

// Owned reports whether this node still owns the stream that another node reads.
func (v *Viewer) Owned() bool { return v.lease.Current() }

// Complete returns false while the server shuts down: for another node, the stream continues
// elsewhere.
func (v *Viewer) Complete() bool { return v.lease == nil || v.hub.ends.Err() == nil }

// Begin corrects the metadata that a viewer of FLV begins with, as its header is corrected.
func (v *Viewer) Begin(batch *millrace.Chain, from int) {
	if v.node == "" { // another node does so for its own viewers
		v.rendition.StateTracks(batch, from)
	}
}

// Missed counts the lost frames.
func (v *Viewer) Missed(m broadcast.Missed) time.Duration {
	v.stream.forms.NoteLost(m)
	return v.stream.forms.KeyAge()
}

// Restart begins at the newest keyframe again.
func (v *Viewer) Restart() fanout.Start { return v.stream.forms.Restart(v.rendition) }

// Sent counts n bytes for the address of v, or for the other node.
func (v *Viewer) Sent(n int) {
	v.account.Add(int64(n))
	if v.lease != nil {
		v.hub.counters.toNodes.Add(int64(n))
	}
}

// Ended logs the end of v, and removes v from its stream and its hub.
func (v *Viewer) Ended(why fanout.Reason, sent int64, missed broadcast.Missed) {
	attrs := append(v.attrs(), "reason", why.String(), "bytes", sent,
		"time", time.Duration(now()-v.since).Round(time.Millisecond))
	if missed.Why != broadcast.NotMissed {
		attrs = append(attrs, "missed", missed.String())
	}
	v.stream.log.Info("viewer ended", attrs...)
	v.exit()
	if v.timeUp != nil {
		v.timeUp.Stop()
	}
	v.terms.End(why.String(), sent)
	v.hub.leave(v)
}
