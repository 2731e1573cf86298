package web

import (
	"bytes"
	"cmp"
	"context"
	"net"
	"net/http"
	"strconv"

	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/fanout"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
)

// Watch answers a GET or HEAD request for a stream. name is the stream's name, to which .flv or
// .mp4 may be added. An error is a [refuse.Refusal], which the caller answers, or the error of the
// request's context. Over HTTP/1, Watch takes over the connection and returns at once. Otherwise it
// returns when the viewer has ended.
func (d Handler) Watch(w http.ResponseWriter, r *http.Request, name string,
	terms live.Terms) error {
	want, err := parseWatchRequest(r, name)
	if err != nil {
		return err
	}
	want.Terms = terms
	return d.watch(w, r, want)
}

// WatchNode is like Watch, but the client is another node with the address node. That node gets
// only streams that this node owns. The response header has the epoch of the ownership. When this
// node loses the stream or shuts down, it cuts off the response, as if the connection had failed.
func (d Handler) WatchNode(w http.ResponseWriter, r *http.Request, name, node string) error {
	want, err := parseWatchRequest(r, name)
	if err == nil {
		err = live.NewPeers(d.hub).CheckOwned(want.Name)
	}
	if err != nil {
		return err
	}
	want.Node = cmp.Or(node, r.RemoteAddr)
	return d.watch(w, r, want)
}

func (d Handler) watch(w http.ResponseWriter, r *http.Request, want live.WatchRequest) error {
	viewers := live.NewAdmission(d.hub)
	if r.Method == http.MethodHead { // HEAD does not wait for a stream
		f, err := viewers.Format(want)
		if err == nil {
			setFormat(w.Header(), f)
		}
		return err
	}
	v, err := viewers.Admit(r.Context(), want)
	if err != nil {
		return err
	}
	// After Hijack, the handler's stack and the buffers of net/http need not live as long as the
	// viewer. Data that the client has sent after its request are ignored.
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		serveWriter(viewers, v, w, r)
		return nil
	}
	to := v.Connect(fanout.NewConn(conn, false, d.cfg.Unsent))
	appendHead(to, v, w.Header(), r.ProtoAtLeast(1, 1))
	viewers.Start(v, func() { drainInput(to, conn) })
	return nil
}

// setFormat sets the headers of a viewer's response.
func setFormat(h http.Header, f rendition.Format) {
	h.Set("Content-Type", f.ContentType())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// setHeader calls setFormat. If v is another node, it also sets the epoch of the ownership.
func setHeader(h http.Header, v *live.Viewer) {
	setFormat(h, v.Format())
	if epoch := v.Epoch(); epoch != 0 {
		h.Set(live.EpochHeader, strconv.FormatUint(epoch, 10))
	}
}

// appendHead appends the response header and the head of the stream to the bytes that a viewer gets
// first. The viewer's connection must have been taken over.
func appendHead(to *fanout.Viewer, v *live.Viewer, h http.Header, chunked bool) {
	h.Set("Connection", "close")
	setHeader(h, v)
	if chunked {
		h.Set("Transfer-Encoding", "chunked")
	}
	head := bytes.NewBufferString("HTTP/1.1 200 OK\r\n")
	_ = h.Write(head)
	to.Append(append(head.Bytes(), "\r\n"...))
	if chunked {
		to.SetChunked()
	}
	to.Append(v.Head())
}

// maxInput limits the total bytes that a viewer may send after its request.
const maxInput = 64 << 10

// drainInput reads from the connection until the viewer hangs up. It ignores all input, including
// further requests.
func drainInput(to *fanout.Viewer, conn net.Conn) {
	var p [64]byte
	for drained := 0; ; {
		n, err := conn.Read(p[:])
		if err != nil {
			return
		}
		if drained += n; drained >= maxInput {
			to.End(fanout.Failed)
			return
		}
	}
}

// serveWriter serves v through its ResponseWriter until v has ended.
func serveWriter(viewers live.Admission, v *live.Viewer, w http.ResponseWriter, r *http.Request) {
	setHeader(w.Header(), v)
	conn := fanout.NewResponseConn(w)
	defer conn.Release()
	to := v.Connect(conn)
	to.Append(v.Head())
	defer context.AfterFunc(r.Context(), func() { to.End(fanout.HungUp) })()
	if !viewers.Serve(v) {
		// Panic, because the viewer would otherwise see a proper end of the stream.
		panic(http.ErrAbortHandler)
	}
}
