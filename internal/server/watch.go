package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace-io/millrace/broadcast"
)

// A path is how a viewer's bytes reach its connection.
type path uint8

const (
	pathWritev path = iota // the connection was taken over; one system call per batch
	pathWrite              // the same, on a system without writev or a connection without a file descriptor
	pathWriter             // an http.ResponseWriter is in between: HTTP/2, or a wrapper that cannot be looked behind

	paths // how many there are
)

func (p path) String() string { return [paths]string{"writev", "write", "responsewriter"}[p] }

// A wish is what a viewer asks for.
type wish struct {
	name string // of the stream
	ext  string // the form; "": as it comes
	next bool   // to begin at the next key frame, and not at the last one
}

// parseWish understands a viewer's request.
func parseWish(r *http.Request) (wish, error) {
	want := wish{name: r.PathValue("name")}
	for _, ext := range []string{extFLV, extMP4} {
		if name, ok := strings.CutSuffix(want.name, ext); ok {
			want.name, want.ext = name, ext
			break
		}
	}
	if err := checkName(want.name); err != nil {
		return wish{}, err
	}
	if q := r.URL.Query(); q.Has("start") {
		switch start := q.Get("start"); start {
		case "last":
		case "next":
			want.next = true
		default:
			return wish{}, fmt.Errorf(
				"bad start=%.80q: want last (the newest key frame, as without it) or next (the next one)", start)
		}
	}
	return want, nil
}

// watch answers GET and HEAD /live/NAME, NAME.flv and NAME.mp4.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	// The stream is for whoever may see it, and a page on another host may play it.
	w.Header().Set("Access-Control-Allow-Origin", "*")
	want, err := parseWish(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := s.census.admit(); err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	v, err := s.enterStream(w, r, want)
	if v == nil {
		s.census.leave(nil)
		if err != nil {
			status, reason := watchStatus(err, want.name)
			refuse(w, status, reason)
		}
		return
	}
	s.serveViewer(w, r, v)
}

// enterStream finds what is to be watched and takes a place among its viewers. For a HEAD, which takes no place, it
// answers and returns neither a viewer nor an error. A viewer that finds a stream just as it ends waits for the next
// one.
func (s *Server) enterStream(w http.ResponseWriter, r *http.Request, want wish) (*viewer, error) {
	for {
		v, err := s.tryStream(w, r, want)
		if err != errEnded || s.cfg.ViewerWait == 0 {
			return v, err
		}
	}
}

// tryStream is enterStream, but for errEnded: then the name is free, or will be at once.
func (s *Server) tryStream(w http.ResponseWriter, r *http.Request, want wish) (*viewer, error) {
	st, first, err := s.await(r, want.name, want.ext)
	if err != nil {
		return nil, err
	}
	if first != nil {
		defer st.arrived()
	}
	f, err := st.form(want.ext)
	if err == nil && r.Method == http.MethodHead {
		setWatchHeader(w.Header(), f)
		return nil, nil
	}
	var out *outlet
	var cursor *broadcast.Cursor
	if err == nil {
		out, cursor, err = st.enter(f, first, want.next)
	}
	if err == nil && cursor == nil {
		cursor, err = st.nextOf(r.Context(), out)
	}
	if err == nil {
		return newViewer(out, cursor, r.RemoteAddr), nil
	}
	if first != nil {
		first.Close()
	}
	return nil, err
}

// await finds the stream. A GET waits for it if it has to, and gets a cursor at its start then; a HEAD does not wait.
func (s *Server) await(r *http.Request, name, ext string) (*stream, *broadcast.Cursor, error) {
	if r.Method == http.MethodHead || s.cfg.ViewerWait == 0 {
		if st := s.registry.find(name); st != nil {
			return st, nil, nil
		}
		return nil, nil, errAbsent
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ViewerWait)
	defer cancel()
	return s.registry.await(ctx, name, ext)
}

// A formError refuses a form in which a stream cannot be had.
type formError struct{ reason string }

func (e *formError) Error() string { return e.reason }

// A fullError refuses a viewer because there are too many.
type fullError struct{ reason string }

func (e *fullError) Error() string { return e.reason }

func watchStatus(err error, name string) (status int, reason string) {
	var form *formError
	var full *fullError
	switch {
	case errors.As(err, &form):
		return http.StatusNotAcceptable, err.Error()
	case errors.As(err, &full), err == errDraining:
		return http.StatusServiceUnavailable, err.Error()
	}
	return http.StatusNotFound, fmt.Sprintf("no stream %q: %v", name, errAbsent)
}

// setWatchHeader fills the head of a viewer's response.
func setWatchHeader(h http.Header, f form) {
	h.Set("Content-Type", f.contentType())
	h.Set("Cache-Control", "no-store")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("X-Content-Type-Options", "nosniff")
}

// begin puts the response's head, and what the outlet has in front of everything, into pending, for a connection that was taken
// over.
func (v *viewer) begin(chunked bool) {
	head := "HTTP/1.1 200 OK\r\n" +
		"Content-Type: " + v.out.form.contentType() + "\r\n" +
		"Cache-Control: no-store\r\n" +
		"Access-Control-Allow-Origin: *\r\n" +
		"X-Content-Type-Options: nosniff\r\n" +
		"Connection: close\r\n"
	if v.chunks.on = chunked; chunked {
		head += "Transfer-Encoding: chunked\r\n"
	}
	v.pending.AppendCopy([]byte(head + "\r\n"))
	if first := v.out.head; len(first) > 0 {
		v.chunks.announce(len(first))
		v.pending.AppendCopy(v.chunks.line)
		v.pending.AppendCopy(first)
		v.chunks.line = nil
	}
}

// serveViewer makes a viewer of a request. On HTTP/1.1 it takes over the connection and returns, so that neither the
// handler's stack nor net/http's buffers live as long as the viewer; otherwise it returns when the viewer ends.
func (s *Server) serveViewer(w http.ResponseWriter, r *http.Request, v *viewer) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		v.path = pathWriter
		s.serveThrough(w, r, v)
		return
	}
	v.conn = bare(conn)
	v.begin(r.ProtoAtLeast(1, 1))
	var carrier socket
	if carrier.open(wire(conn)) {
		carrier.boundUnsent(s.cfg.Unsent)
	}
	if v.path = pathWrite; v.sock.open(v.conn) {
		v.path = pathWritev
	}
	if v.path == pathWritev {
		v.enter()
		go v.listenTo()
		go v.chase()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	v.stop = func(ending) { cancel() }
	v.enter()
	go v.listenTo()
	go v.follow(ctx, conn, func() error { return nil })
}

// serveThrough serves a viewer through its ResponseWriter.
func (s *Server) serveThrough(w http.ResponseWriter, r *http.Request, v *viewer) {
	setWatchHeader(w.Header(), v.out.form)
	control := http.NewResponseController(w)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	writing := deadline{set: control.SetWriteDeadline}
	defer writing.retire() // the ResponseWriter must not be used after this handler
	v.stop = func(why ending) {
		cancel()
		if !why.whole() { // otherwise the last bytes are still on their way
			writing.cut()
		}
	}
	v.pending.AppendCopy(v.out.head)
	v.enter()
	v.follow(ctx, w, control.Flush)
	if !ending(v.why.Load()).whole() {
		panic(http.ErrAbortHandler) // otherwise the viewer would take it for the stream's proper end
	}
}

// newViewer returns a viewer of out that nothing has been sent to. enter makes it known.
func newViewer(out *outlet, c *broadcast.Cursor, remote string) *viewer {
	v := &viewer{out: out, cursor: c, remote: remote, since: now()}
	head := out.ring.Stats().Published
	v.start = c.Lag()
	v.passed.frames.Store(int64(head.Frames) - int64(v.start.Frames))
	v.passed.bytes.Store(int64(head.Bytes) - v.start.Bytes)
	v.wait(v.since)
	return v
}

// enter makes v known to its pump, before anybody drives it.
func (v *viewer) enter() {
	v.pump = v.out.pump()
	s := v.out.stream
	s.server.census.enter(v)
	s.server.metrics.viewerCame(v.path)
	s.log.Info("viewer started", "viewer", v.remote, "form", v.out.form.String(), "path", v.path.String())
	v.pump.tell(message{about: v, what: joins})
}

// left notes that v has ended and gave everything back.
func (o *outlet) left(v *viewer) {
	s, why := o.stream, ending(v.why.Load())
	v.pump.count.Add(-1)
	s.server.metrics.viewerLeft(v.path, why)
	attrs := []any{
		"viewer", v.remote, "form", o.form.String(), "reason", why.String(), "bytes", v.sent,
		"time", time.Duration(now() - v.since).Round(time.Millisecond),
	}
	if v.missed.Why != broadcast.NotMissed {
		attrs = append(attrs, "missed", v.missed.String())
	}
	s.log.Info("viewer ended", attrs...)
	s.exit(o)
	s.server.census.leave(v)
}
