package relay

import (
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/address"
	"github.com/millrace-io/millrace/server/internal/relay/fanout"
	"github.com/millrace-io/millrace/server/internal/relay/rendition"
)

// A viewer is a client that watches a rendition: who it is, and where it begins. Its transport sends the frames; the viewer is
// the [fanout.Session] of it.
type viewer struct {
	stream    *stream
	rendition *rendition.Rendition
	remote    string
	account   *address.Account // of its address
	since     int64            // when it came; see now
	id        uint64           // its number among all viewers, set by Hub.serve

	// Of another node: its address, and the ownership without which it gets nothing. Otherwise nil.
	node  string
	lease Lease

	terms  Terms
	timeUp *time.Timer // nil without a limit

	start     fanout.Start   // where it begins; it has no cursor until that is known, and after connect
	transport *fanout.Viewer // writes to it; nil until connect
}

// connect creates the transport, which owns conn and the cursor. The caller then calls enter, and starts the transport.
func (v *viewer) connect(conn fanout.Conn) {
	v.transport = v.rendition.Fanout().NewViewer(fanout.ViewerConfig{
		Session: v, Conn: conn, Remote: v.remote, Peer: v.lease != nil, Start: v.start})
	v.start = fanout.Start{}
}

// enter makes v known, before its transport is served.
func (v *viewer) enter() {
	v.stream.hub.serve(v)
	v.stream.log.Info("viewer started", append(v.attrs(), "path", v.transport.Path())...)
	v.keepTo(&v.terms)
}

// attrs returns what the log says of v. Another node is told from viewers.
func (v *viewer) attrs() []any {
	attrs := []any{"viewer", v.remote}
	if v.node != "" {
		attrs = append(attrs, "node", v.node)
	}
	return append(attrs, "form", v.rendition.Format().String())
}

// Current reports whether this node still owns the stream that another node reads.
func (v *viewer) Current() bool { return v.lease.Current() }

// Complete returns false while the server shuts down: for another node, the stream continues elsewhere.
func (v *viewer) Complete() bool { return v.lease == nil || v.stream.hub.ends.Err() == nil }

// Begin corrects the metadata that a viewer of FLV begins with, as its header is corrected.
func (v *viewer) Begin(batch *millrace.Chain, from int) {
	if v.node == "" { // another node does so for its own viewers
		v.rendition.StateTracks(batch, from)
	}
}

// Missed counts the lost frames.
func (v *viewer) Missed(m broadcast.Missed) time.Duration {
	v.stream.forms.NoteLost(m)
	return v.stream.forms.KeyAge()
}

// Restart begins at the newest keyframe again.
func (v *viewer) Restart() fanout.Start {
	return v.stream.forms.Restart(v.rendition)
}

// Sent counts n bytes for the address of v, or for the other node.
func (v *viewer) Sent(n int) {
	v.account.Add(int64(n))
	if v.lease != nil {
		v.stream.hub.counters.toNodes.Add(int64(n))
	}
}

// Ended logs the end of v, and removes v from its stream and its hub.
func (v *viewer) Ended(why fanout.Reason, sent int64, missed broadcast.Missed) {
	s := v.stream
	attrs := append(v.attrs(), "reason", why.String(), "bytes", sent,
		"time", time.Duration(now()-v.since).Round(time.Millisecond))
	if missed.Why != broadcast.NotMissed {
		attrs = append(attrs, "missed", missed.String())
	}
	s.log.Info("viewer ended", attrs...)
	s.exit(v)
	if v.timeUp != nil {
		v.timeUp.Stop()
	}
	v.terms.End(why.String(), sent)
	s.hub.leave(v)
}

// keepTo has the viewer, which is served, end when its time is up.
func (v *viewer) keepTo(t *Terms) {
	if t.MaxTime > 0 {
		v.timeUp = time.AfterFunc(t.MaxTime, func() { v.transport.End(fanout.TimeUp) })
	}
}
