package relay

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"

	"github.com/millrace-io/millrace/server/internal/address"
	"github.com/millrace-io/millrace/server/internal/relay/fanout"
	"github.com/millrace-io/millrace/server/internal/relay/rendition"
)

// Watch answers a GET or HEAD for the stream name, name.flv or name.mp4. An error is a [refuse.Refusal], which the caller
// answers, or that of the request's context. Over HTTP/1 Watch takes over the connection and returns at once; otherwise
// it returns when the viewer has ended.
func (d HTTP) Watch(w http.ResponseWriter, r *http.Request, name string, terms Terms) error {
	want, err := parseWatchRequest(r, name)
	if err != nil {
		return err
	}
	want.terms = terms
	return d.watch(w, r, want)
}

func (d HTTP) watch(w http.ResponseWriter, r *http.Request, want watchRequest) error {
	if r.Method == http.MethodHead {
		return d.head(w, want)
	}
	v, err := d.hub.admit(r.Context(), want)
	if err != nil {
		return err
	}
	// Neither the handler's stack nor the buffers of net/http then live as long as the viewer.
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		v.serveWriter(w, r)
		return nil
	}
	v.connect(fanout.NewConn(conn, false, d.hub.cfg.Unsent))
	v.appendHead(w.Header(), r.ProtoAtLeast(1, 1))
	v.enter()
	v.rendition.Fanout().Start(v.transport, func() { v.hearHTTP(conn) })
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
	v.start.Cursor.Close()
	v.stream.exit(v)
	v.stream.hub.admitted.Release()
}

// awaitReady waits until v can begin at the next key frame of its rendition. Until the rendition is ready, a key frame
// that comes next may be an old one.
func (v *viewer) awaitReady(ctx context.Context) error {
	if v.start.Cursor != nil {
		return nil
	}
	start, err := v.rendition.AwaitReady(ctx)
	if err != nil {
		v.stream.exit(v)
		return err
	}
	v.start = start
	return nil
}

// awaitTracks waits until v can be told which tracks the stream has: the header of FLV must not announce one that does not
// come, because browsers would wait for it. A node that asks finds that out for its own viewers.
func (v *viewer) awaitTracks(ctx context.Context) error {
	if v.node != "" {
		return nil
	}
	err := v.rendition.AwaitTracks(ctx)
	if err != nil {
		v.start.Cursor.Close()
		v.stream.exit(v)
	}
	return err
}

// head answers a HEAD, which does not wait for a stream.
func (d HTTP) head(w http.ResponseWriter, want watchRequest) error {
	d.hub.mu.Lock()
	s := d.hub.find(want.name)
	d.hub.mu.Unlock()
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
func setWatchHeader(h http.Header, f rendition.Format) {
	h.Set("Content-Type", f.ContentType())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// setHeader is setWatchHeader, and tells other nodes of the ownership.
func (v *viewer) setHeader(h http.Header) {
	setWatchHeader(h, v.rendition.Format())
	if v.lease != nil {
		h.Set(headerEpoch, strconv.FormatUint(v.lease.Epoch(), 10))
	}
}

// appendHead appends the head of a response to the transport, for a connection that was taken over, and then v.head.
func (v *viewer) appendHead(h http.Header, chunked bool) {
	h.Set("Connection", "close")
	v.setHeader(h)
	if chunked {
		h.Set("Transfer-Encoding", "chunked")
	}
	head := bytes.NewBufferString("HTTP/1.1 200 OK\r\n")
	_ = h.Write(head)
	v.transport.Append(append(head.Bytes(), "\r\n"...))
	if chunked {
		v.transport.SetChunked()
	}
	v.transport.Append(v.rendition.Head())
}

// maxChatter limits the bytes that a viewer may send after its request.
const maxChatter = 64 << 10

// hearHTTP reads from the connection until the viewer hangs up. It ignores further requests.
func (v *viewer) hearHTTP(conn net.Conn) {
	var p [64]byte
	for heard := 0; ; {
		n, err := conn.Read(p[:])
		if err != nil {
			return
		}
		if heard += n; heard >= maxChatter {
			v.transport.End(fanout.Failed)
			return
		}
	}
}

// serveWriter serves v through its ResponseWriter until it ends.
func (v *viewer) serveWriter(w http.ResponseWriter, r *http.Request) {
	v.setHeader(w.Header())
	conn := fanout.NewResponseConn(w)
	defer conn.Release()
	v.connect(conn)
	v.transport.Append(v.rendition.Head())
	defer context.AfterFunc(r.Context(), func() { v.transport.End(fanout.HungUp) })()
	v.enter()
	v.rendition.Fanout().Serve(v.transport)
	if !v.transport.Reason().Complete() || !v.Complete() {
		panic(http.ErrAbortHandler) // otherwise the viewer would take it for the stream's proper end
	}
}
