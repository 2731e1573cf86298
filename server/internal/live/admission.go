package live

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/millrace-io/millrace/server/internal/conn/address"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// An Admission admits viewers to the streams of a Hub, within the limits on viewers.
type Admission struct{ hub *Hub }

// NewAdmission returns an Admission that admits viewers to the streams of h.
func NewAdmission(h *Hub) Admission { return Admission{h} }

// Admit waits until the requested stream exists, and returns a viewer of the stream. It waits at
// most as long as [Config] and ctx allow. A waiting viewer counts toward the limits on viewers. An
// error is a [refuse.Refusal] or the error of ctx.
//
// To serve the viewer, the caller calls Viewer.Connect, and then Admission.Start or
// Admission.Serve. If the caller does not serve the viewer, it must call Viewer.Decline.
func (a Admission) Admit(ctx context.Context, want WatchRequest) (*Viewer, error) {
	if err := a.hub.cfg.Memory.Admit(); err != nil {
		return nil, err
	}
	acquire := a.hub.admitted.Acquire
	if want.Node != "" || want.Push { // there are few of them, so they are not limited
		acquire = a.hub.admitted.Force
	}
	if err := acquire(); err != nil {
		return nil, err
	}
	var v *Viewer
	err := a.awaitStream(ctx, want.Name, func(s *stream) (err error) {
		v, err = a.newViewer(s, want)
		return err
	})
	if err == nil {
		err = v.awaitReady(ctx)
	}
	if err == nil {
		err = v.awaitTracks(ctx)
	}
	if err != nil {
		a.hub.admitted.Release()
		return nil, err
	}
	v.account = address.Of(ctx)
	return v, nil
}

// awaitStream waits for the named stream, at most as long as Config and ctx allow. When the stream
// exists, awaitStream calls the function enter with the stream, and returns the error of enter. It
// holds Hub.mu during the call.
func (a Admission) awaitStream(ctx context.Context, name string,
	enter func(s *stream) error) error {
	h := a.hub
	wait := h.cfg.ViewerWait
	if h.cfg.Cluster != nil {
		wait = max(wait, pullWait)
	}
	h.mu.Lock()
	switch s := h.find(name); {
	case s != nil:
		err := enter(s)
		waits := s.pause != nil
		h.mu.Unlock()
		if waits {
			h.want(name)
		}
		return err
	case h.ends.Err() != nil:
		h.mu.Unlock()
		return refuse.ErrShutdown
	case wait == 0:
		h.mu.Unlock()
		return errAbsent(name)
	}
	w := &waiter{enter: enter, done: make(chan struct{})}
	h.waiting[name] = append(h.waiting[name], w)
	h.mu.Unlock()
	h.want(name)

	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-w.done: // the stream came at the same moment
		return w.err
	default:
	}
	rest := slices.DeleteFunc(h.waiting[name], func(other *waiter) bool { return other == w })
	if h.waiting[name] = rest; len(rest) == 0 {
		delete(h.waiting, name)
	}
	switch {
	case h.cfg.Cluster != nil && len(h.streams) >= h.cfg.MaxStreams: // no room to pull the stream
		return h.cfg.tooManyStreams()
	case w.unreached:
		return refuse.New(http.StatusServiceUnavailable,
			"the node that has the stream %q does not answer", name).After(retryAfter)
	}
	return h.cfg.absentError(name)
}

// CheckPush returns an error if a viewer with WatchRequest.Push would be refused: if the stream does
// not exist, or if this node is not its owner for certain.
func (a Admission) CheckPush(name string) error {
	a.hub.mu.Lock()
	defer a.hub.mu.Unlock()
	switch s := a.hub.find(name); {
	case s == nil:
		return errAbsent(name)
	case !a.hub.mayPush(s):
		return errNotOwner(name)
	}
	return nil
}

// mayPush reports whether this node may send s on to other servers. In a cluster, another node might
// do so too, unless the cluster has confirmed that this node is the owner. The caller must hold
// h.mu.
func (h *Hub) mayPush(s *stream) bool {
	return h.cfg.Cluster == nil || s.lease != nil && s.lease.Epoch() != 0 && s.lease.Current()
}

// newViewer adds a viewer to s. The caller must hold Hub.mu, and must later call Viewer.exit.
func (a Admission) newViewer(s *stream, want WatchRequest) (*Viewer, error) {
	f, err := s.format(want)
	peer, owned := want.Node != "", s.lease != nil
	if peer && (!owned || s.lease.Epoch() == 0) || want.Push && !a.hub.mayPush(s) {
		err = errNotOwner(s.name)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &Viewer{hub: a.hub, stream: s, remote: want.Remote, since: nanotime(), terms: want.Terms,
		pause: a.hub.cfg.pause(want.Bound)}
	next := want.Next
	if peer || want.Push {
		v.node, v.push, v.lease = want.Node, want.Push, s.lease
		if s.unconfirmed && s.lease != nil && s.lease.Epoch() != 0 {
			s.unconfirmed = false
			s.forms.ForgetStart()
		}
		next = next || !s.forms.HasStart() // the kept frames are from an earlier owner
	} else if err := s.join(a.hub.cfg.MaxStreamViewers); err != nil {
		return nil, err
	}
	v.rendition, v.start = s.forms.Join(f, next)
	return v, nil
}

// Decline removes a viewer that Admit has returned, if the caller does not serve the viewer. It
// must not be called after Viewer.Connect.
func (v *Viewer) Decline() {
	v.start.Cursor.Close()
	v.exit()
	v.hub.admitted.Release()
}

// awaitReady waits until v.start is known. If awaitReady returns an error, it has removed v from
// its stream.
func (v *Viewer) awaitReady(ctx context.Context) error {
	if v.start.Cursor != nil {
		return nil
	}
	start, err := v.rendition.AwaitReady(ctx)
	if err != nil {
		v.exit()
		return err
	}
	v.start = start
	return nil
}

// awaitTracks waits until the tracks of the stream are known, because the head of v's response
// announces them. If v is another node, awaitTracks does not wait, because that node determines the
// tracks for its own viewers. If awaitTracks returns an error, it has removed v from its stream.
func (v *Viewer) awaitTracks(ctx context.Context) error {
	if v.node != "" {
		return nil
	}
	err := v.rendition.AwaitTracks(ctx)
	if err != nil {
		v.start.Cursor.Close()
		v.exit()
	}
	return err
}

// Format returns the format in which the requested stream would be sent to a viewer. It does not
// wait for the stream.
func (a Admission) Format(want WatchRequest) (rendition.Format, error) {
	a.hub.mu.Lock()
	s := a.hub.find(want.Name)
	a.hub.mu.Unlock()
	if s == nil {
		return 0, errAbsent(want.Name)
	}
	return s.format(want)
}

// Start begins to serve v, and returns at once. The caller must call Viewer.Connect first. Start
// runs readLoop in a goroutine. readLoop must read from the client until the client hangs up.
func (a Admission) Start(v *Viewer, readLoop func()) {
	a.enter(v)
	v.rendition.Fanout().Start(v.transport, v.pause, readLoop)
}

// Serve serves v, and returns when v has ended. The caller must call Viewer.Connect first. Serve
// reports whether v has received the complete stream, including the end.
func (a Admission) Serve(v *Viewer) (complete bool) {
	a.enter(v)
	v.rendition.Fanout().Serve(v.transport, v.pause)
	return v.transport.Reason().Complete() && v.Complete()
}

func (a Admission) enter(v *Viewer) {
	a.noteServed(v)
	v.stream.log.Info("viewer started", append(v.attrs(), "path", v.transport.Path())...)
	if v.terms.MaxTime > 0 {
		v.timeUp = time.AfterFunc(v.terms.MaxTime, func() { v.transport.End(fanout.TimeUp) })
	}
}

// noteServed adds v to the Hub's served viewers. It disconnects v at once in two cases:
//   - The server has already ended all viewers.
//   - v is another node, and this node's lease of the stream has changed since v was admitted.
func (a Admission) noteServed(v *Viewer) {
	a.hub.mu.Lock()
	defer a.hub.mu.Unlock()
	a.hub.lastViewer++
	v.id = a.hub.lastViewer
	a.hub.served[v] = struct{}{}
	if a.hub.cut {
		v.transport.End(fanout.Drained)
	}
	if v.lease != nil {
		v.stream.peers[v.transport] = v.node
		if v.lease != v.stream.lease {
			v.transport.End(fanout.Moved)
		}
	}
}
