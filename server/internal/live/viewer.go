package live

import (
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/flvstream"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// A Viewer is a client that watches a stream in one format. Its transport sends the frames, and
// uses the Viewer as a [fanout.Session].
type Viewer struct {
	hub       *Hub
	stream    *stream
	rendition *rendition.Rendition
	remote    string
	account   *address.Account // counts the bytes sent to the viewer's address
	since     int64            // time of the viewer's arrival; see nanotime
	pause     time.Duration    // time from one batch to the next
	id        uint64           // unique number of the viewer; set by Admission.noteServed

	// If the viewer is another node of the cluster, node is its address; otherwise node is "". If
	// this node sends the stream on to another server, push is true.
	//
	// In both cases, lease is this node's ownership of the stream, or nil without a cluster. While
	// lease.Current returns false, the viewer gets no frames. For all other viewers, lease is nil.
	node  string
	push  bool
	lease Lease

	terms  Terms
	timeUp *time.Timer // nil if there is no time limit

	// The position at which the viewer begins. Cursor is nil until the position is known, and after
	// Connect.
	start     fanout.Start
	transport *fanout.Viewer // writes to the client; nil until Connect
}

func (v *Viewer) exit() {
	s := v.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.node == "" && !v.push {
		s.leave()
	}
	s.forms.Leave(v.rendition)
}

// Connect returns a new fanout.Viewer that writes to the client. It takes ownership of conn. The
// caller appends the head of the response, and then calls Admission.Start or Admission.Serve.
func (v *Viewer) Connect(conn fanout.Conn) *fanout.Viewer {
	v.transport = v.rendition.Fanout().NewViewer(fanout.ViewerConfig{
		Session: v, Conn: conn, Remote: v.remote, Peer: v.lease != nil, Start: v.start})
	v.start = fanout.Start{}
	return v.transport
}

// Format returns the format in which v receives the stream.
func (v *Viewer) Format() rendition.Format { return v.rendition.Format() }

// Head returns the bytes that v receives before any frame.
func (v *Viewer) Head() []byte { return v.rendition.Head(v.node != "") }

// Epoch returns the epoch of v's [Lease] if v is another node, and otherwise 0.
func (v *Viewer) Epoch() uint64 {
	if v.node == "" {
		return 0
	}
	return v.lease.Epoch()
}

func (v *Viewer) attrs() []any {
	attrs := []any{"viewer", v.remote}
	if v.node != "" {
		attrs = append(attrs, "node", v.node)
	}
	return append(attrs, "form", v.rendition.Format().String())
}

// Owned reports whether this node still owns the stream. It may be called only if v has a lease.
func (v *Viewer) Owned() bool { return v.lease.Current() }

// Complete reports whether the stream has ended. It is called when v has received all frames. If
// the server shuts down, Complete returns false if v has a lease, because the stream continues at
// another node.
func (v *Viewer) Complete() bool { return v.lease == nil || v.hub.ends.Err() == nil }

// Begin changes the FLV metadata in batch, so that the metadata announce the same tracks as the FLV
// header. The first tag in batch begins at the given offset.
func (v *Viewer) Begin(batch *millrace.Chain, offset int) {
	if v.node == "" { // another node does this for its own viewers
		v.rendition.StateTracks(batch, offset)
	}
	if v.push && v.Format() == rendition.RTMP {
		flvstream.MarkMetadata(batch, offset, v.hub.cfg.MaxTag())
	}
}

// Missed adds the lost frames to the statistics. The viewer continues at the newest keyframe, and
// Missed returns the age of this keyframe.
func (v *Viewer) Missed(m broadcast.Missed) time.Duration {
	v.stream.forms.NoteLost(m)
	return v.stream.forms.KeyAge()
}

// Restart returns the newest keyframe as the position at which v continues after a pause.
func (v *Viewer) Restart() fanout.Start { return v.stream.forms.Restart(v.rendition) }

// Sent records that n bytes were sent to v. The bytes count for the address of v. If v is another
// node, the bytes also count as sent to other nodes.
func (v *Viewer) Sent(n int) {
	v.account.Add(int64(n))
	if v.node != "" {
		v.hub.counters.toNodes.Add(int64(n))
	}
}

// Ended logs why v has ended, and removes v from its stream and its Hub.
func (v *Viewer) Ended(reason fanout.Reason, sent int64, missed broadcast.Missed) {
	attrs := append(v.attrs(), "reason", reason.String(), "bytes", sent,
		"time", time.Duration(nanotime()-v.since).Round(time.Millisecond))
	if missed.Why != broadcast.NotMissed {
		attrs = append(attrs, "missed", missed.String())
	}
	v.stream.log.Info("viewer ended", attrs...)
	v.exit()
	if v.timeUp != nil {
		v.timeUp.Stop()
	}
	v.terms.End(reason.String(), sent)
	v.hub.leave(v)
}
