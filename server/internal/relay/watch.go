package relay

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/broadcast"
	"github.com/millrace-io/millrace/server/internal/address"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay/flvstream"
	"github.com/millrace-io/millrace/server/internal/streamname"
	"github.com/millrace-io/millrace/server/internal/tcpconn"
)

// A watchRequest is what a viewer asks for.
type watchRequest struct {
	name   string // of the stream
	format format
	asIs   bool   // in the format that comes, instead of format
	next   bool   // to begin at the next key frame, and not at the last one
	remote string // the viewer's address
	node   string // the address of the node that asks; "" for a viewer
	terms  Terms
}

// parseWatchRequest understands a request for name, which may end with a format.
func parseWatchRequest(r *http.Request, name string) (watchRequest, error) {
	name, ext := streamname.CutExt(name)
	want := watchRequest{name: name, asIs: ext == "", format: formatFLV, remote: r.RemoteAddr}
	if ext == streamname.MP4 {
		want.format = formatMP4
	}
	if err := streamname.Check(want.name); err != nil {
		return want, err
	}
	if q := r.URL.Query(); q.Has("start") {
		switch start := q.Get("start"); start {
		case "last":
		case "next":
			want.next = true
		default:
			return want, refuse.New(http.StatusBadRequest,
				"bad start=%.80q: want last (the newest key frame, as without it) or next (the next one)", start)
		}
	}
	return want, nil
}

// Watch answers a GET or HEAD for the stream name, name.flv or name.mp4. An error is a [refuse.Refusal], which the caller
// answers, or that of the request's context. Over HTTP/1 Watch takes over the connection and returns at once; otherwise
// it returns when the viewer has ended.
func (h *Hub) Watch(w http.ResponseWriter, r *http.Request, name string, terms Terms) error {
	want, err := parseWatchRequest(r, name)
	if err != nil {
		return err
	}
	want.terms = terms
	return h.watch(w, r, want)
}

func (h *Hub) watch(w http.ResponseWriter, r *http.Request, want watchRequest) error {
	if r.Method == http.MethodHead {
		return h.head(w, want)
	}
	v, err := h.admit(r.Context(), want)
	if err != nil {
		return err
	}
	if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
		v.appendHead(w.Header(), r.ProtoAtLeast(1, 1))
		v.hear = func(v *viewer) { v.hearHTTP(conn) }
		v.conn = newStreamConn(conn, false)
		v.serveConn(conn)
	} else {
		v.serveWriter(w, r)
	}
	return nil
}

// admit returns a viewer that has a place, and waits for its stream until ctx ends.
func (h *Hub) admit(ctx context.Context, want watchRequest) (*viewer, error) {
	if err := h.cfg.Memory.Admit(); err != nil {
		return nil, err
	}
	acquire := h.admitted.Acquire
	if want.node != "" { // which stands for any number of viewers, and there are as many as nodes
		acquire = h.admitted.Force
	}
	if err := acquire(); err != nil {
		return nil, err
	}
	v, err := h.enter(ctx, want)
	if err == nil {
		err = v.awaitReady(ctx)
	}
	if err == nil {
		err = v.awaitTracks(ctx)
	}
	if err != nil {
		h.admitted.Release()
		return nil, err
	}
	v.account = address.Of(ctx)
	return v, nil
}

// decline gives back the place of a viewer that will not be served.
func (v *viewer) decline() {
	v.cursor.Close()
	v.rendition.stream.exit(v)
	v.rendition.stream.hub.admitted.Release()
}

// awaitReady waits until v can begin at the next key frame of its rendition. Until the rendition is ready, a key frame
// that comes next may be an old one.
func (v *viewer) awaitReady(ctx context.Context) error {
	if v.cursor != nil {
		return nil
	}
	r := v.rendition
	select {
	case <-r.ready:
	case <-ctx.Done():
		r.stream.exit(v)
		return ctx.Err()
	}
	r.stream.mu.Lock()
	defer r.stream.mu.Unlock()
	v.begin(r.cursor(broadcast.FromNextKey()))
	return nil
}

// awaitTracks waits until v can be told which tracks the stream has: the header of FLV must not announce one that does not
// come, because browsers would wait for it. A node that asks finds that out for its own viewers.
func (v *viewer) awaitTracks(ctx context.Context) error {
	if v.rendition.format != formatFLV || v.node != "" {
		return nil
	}
	s := v.rendition.stream
	timer := time.NewTimer(flvstream.TrackWait * time.Millisecond) // the publisher may send nothing
	defer timer.Stop()
	select {
	case <-s.facts.Known():
	case <-timer.C:
	case <-ctx.Done():
		v.cursor.Close()
		s.exit(v)
		return ctx.Err()
	}
	return nil
}

// head returns what v gets before anything from the ring.
func (v *viewer) head() []byte {
	r := v.rendition
	tracks := r.stream.facts.Tracks.Load()
	if r.format != formatFLV || tracks == 0 {
		return r.head
	}
	head := bytes.Clone(r.head)
	head[4] = byte(tracks)
	return head
}

// head answers a HEAD, which does not wait for a stream.
func (h *Hub) head(w http.ResponseWriter, want watchRequest) error {
	h.mu.Lock()
	s := h.find(want.name)
	h.mu.Unlock()
	if s == nil {
		return errAbsent(want.name)
	}
	f, err := s.format(want)
	if err == nil {
		setWatchHeader(w.Header(), f)
	}
	return err
}

// setWatchHeader fills the head of a viewer's response.
func setWatchHeader(h http.Header, f format) {
	h.Set("Content-Type", f.contentType())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// setHeader is setWatchHeader, and tells other nodes of the ownership.
func (v *viewer) setHeader(h http.Header) {
	setWatchHeader(h, v.rendition.format)
	if v.lease != nil {
		h.Set(headerEpoch, strconv.FormatUint(v.lease.Epoch(), 10))
	}
}

// appendHead puts the response's head, which begins with h, and what every viewer of the rendition begins with, into pending, for a
// connection that was taken over.
func (v *viewer) appendHead(h http.Header, chunked bool) {
	h.Set("Connection", "close")
	v.setHeader(h)
	if v.chunks.on = chunked; chunked {
		h.Set("Transfer-Encoding", "chunked")
	}
	head := bytes.NewBufferString("HTTP/1.1 200 OK\r\n")
	_ = h.Write(head)
	v.pending.AppendCopy(append(head.Bytes(), "\r\n"...))
	if first := v.head(); len(first) > 0 {
		v.chunks.begin(len(first))
		v.pending.AppendCopy(v.chunks.line)
		v.pending.AppendCopy(first)
		v.chunks.line = nil
	}
}

// serveConn serves v on v.conn, which is conn, and was taken over so that neither the handler's stack nor net/http's
// buffers live as long as the viewer. It sends what is pending first, and returns at once.
func (v *viewer) serveConn(conn net.Conn) {
	tcpconn.BoundUnsent(tcpconn.Of(conn), v.rendition.stream.hub.cfg.Unsent)
	if v.conn.path() != pathWritev {
		v.follow()
	}
	v.enter()
	go v.listen()
	go v.fanout.serve(v)
}

// serveWriter serves v through its ResponseWriter until it ends.
func (v *viewer) serveWriter(w http.ResponseWriter, r *http.Request) {
	v.setHeader(w.Header())
	v.pending.AppendCopy(v.head())
	conn := newResponseConn(w)
	defer conn.release()
	v.conn = conn
	v.follow()
	defer context.AfterFunc(r.Context(), func() { v.end(hungUp) })()
	v.enter()
	v.fanout.serve(v)
	if !disconnectReason(v.reason.Load()).complete() || !v.hasProperEnd() {
		panic(http.ErrAbortHandler) // otherwise the viewer would take it for the stream's proper end
	}
}

// follow prepares v for a goroutine of its own that waits for what is new.
func (v *viewer) follow() {
	v.news = v.rendition.ring.Watch()
	v.nudged = make(chan struct{}, 1)
}

// enter makes v known, before a goroutine serves it.
func (v *viewer) enter() {
	s := v.rendition.stream
	v.fanout = v.rendition.fanout()
	s.hub.counters.came[v.conn.path()].Add(1)
	s.hub.counters.watching[v.conn.path()].Add(1)
	s.hub.serve(v)
	s.log.Info("viewer started", append(v.attrs(), "path", v.conn.path().String())...)
	v.keepTo(&v.terms)
	v.fanout.add(v)
}
