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

// Watch serves a GET or HEAD request for the stream called name, which may have the extension .flv
// or .mp4. If the request asks for a WebSocket, the stream is sent in its messages. Over HTTP/1,
// Watch takes over the connection and returns at once. Otherwise it returns
// when the response has ended. If Watch returns an error, the caller must send the response. The
// error is a [refuse.Refusal] or the error of the request's context.
func (d Handler) Watch(w http.ResponseWriter, r *http.Request, name string,
	terms live.Terms) error {
	want, err := parseWatchRequest(r, name)
	if err != nil {
		return err
	}
	want.Terms = terms
	return d.watch(w, r, want)
}

// WatchNode serves the stream called name to the node of the cluster with the address addr. This
// node must own the stream. The response header contains the epoch, a number that identifies the
// ownership. If this node loses the ownership or shuts down, the response ends as if the connection
// had failed.
//
// Over HTTP/1, WatchNode takes over the connection and returns at once. Otherwise it returns when
// the response has ended.
//
// If WatchNode returns an error, the caller must send the response. The error is a [refuse.Refusal]
// or the error of the request's context.
func (d Handler) WatchNode(w http.ResponseWriter, r *http.Request, name, addr string) error {
	want, err := parseWatchRequest(r, name)
	if err == nil {
		err = live.NewPeers(d.hub).CheckOwned(want.Name)
	}
	if err != nil {
		return err
	}
	want.Node = cmp.Or(addr, r.RemoteAddr)
	return d.watch(w, r, want)
}

func (d Handler) watch(w http.ResponseWriter, r *http.Request, want live.WatchRequest) error {
	viewers := live.NewAdmission(d.hub)
	if r.Method == http.MethodHead { // a HEAD request does not wait until the stream exists
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
	if wantsSocket(r) && want.Node == "" {
		d.serveSocket(viewers, v, w, r, &want.Terms)
		return nil
	}
	// Hijack frees the goroutine and the buffers of net/http while the viewer is served. Any data
	// that the client has sent after its request is ignored.
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

func setFormat(h http.Header, f rendition.Format) {
	h.Set("Content-Type", f.ContentType())
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// setHeader sets the headers of a viewer's response. If the viewer is another node, the headers
// include the epoch, a number that identifies this node's ownership of the stream.
func setHeader(h http.Header, v *live.Viewer) {
	setFormat(h, v.Format())
	if epoch := v.Epoch(); epoch != 0 {
		h.Set(live.EpochHeader, strconv.FormatUint(epoch, 10))
	}
}

// appendHead queues the response header and the beginning of the stream for a viewer. The
// connection must have been hijacked, because net/http would otherwise send a header, too.
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

// maxInput is the maximum number of bytes that a viewer may send after its request.
const maxInput = 64 << 10

// drainInput reads and ignores the input of a viewer, including further requests, until the viewer
// disconnects.
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

func serveWriter(viewers live.Admission, v *live.Viewer, w http.ResponseWriter, r *http.Request) {
	setHeader(w.Header(), v)
	conn := fanout.NewResponseConn(w)
	defer conn.Release()
	to := v.Connect(conn)
	to.Append(v.Head())
	defer context.AfterFunc(r.Context(), func() { to.End(fanout.HungUp) })()
	if !viewers.Serve(v) {
		// Without this panic, the viewer would see a regular end of the stream.
		panic(http.ErrAbortHandler)
	}
}
