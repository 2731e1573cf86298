package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// newRequest converts a player's request to a request that can be sent to another node.
func (s *players) newRequest(r *http.Request, name, object string) (q cluster.HLSRequest,
	err error) {
	_, isObject := hls.ParseObject(object)
	q = cluster.HLSRequest{Stream: name, Object: object, Gzip: !isObject && s.wantsGzip(r)}
	if !hlslive.IsMedia(object) {
		return q, nil
	}
	all, known := r.URL.Query(), make(url.Values)
	if _, q.Blocks, err = hls.ParseReload(r.URL.RawQuery); err != nil {
		return q, refuse.New(http.StatusBadRequest, "%v", err)
	}
	for _, name := range []string{"_HLS_msn", "_HLS_part", "_HLS_skip"} {
		if v := all.Get(name); v != "" {
			known.Set(name, v)
		}
	}
	if len(known) > 0 {
		q.Query = "?" + known.Encode()
	}
	return q, nil
}

// serveElsewhere serves HLS from another node or from the store. It is called after serveHere has
// failed with err. If serveElsewhere fails as well, it returns the error that must be sent to the
// client.
func (s *players) serveElsewhere(w http.ResponseWriter, r *http.Request, name, object string,
	err error) error {
	elsewhere := errors.Is(err, hlslive.ErrElsewhere)
	_, fromNode := access.NodeOf(r)
	if elsewhere && fromNode { // the other node then looks up the owner again
		return refuse.New(http.StatusMisdirectedRequest, "this node does not own the stream %q",
			name)
	}
	q, bad := s.newRequest(r, name, object)
	switch {
	case bad != nil:
		return bad
	case !elsewhere && (refuse.Status(err) != http.StatusNotFound || !q.InStore() || fromNode):
		return err
	}
	ctx, release, full := s.peers.AdmitRequest(r.Context())
	if full != nil {
		return full
	}
	defer release()
	var out cluster.Object
	defer func() { out.Body.Release() }()
	for deadline := time.Now().Add(s.cfg.Remote.Wait); errors.Is(err, hlslive.ErrElsewhere); {
		if out, err = s.cfg.Remote.Get(ctx, &q); err != cluster.ErrHere {
			break
		}
		if err = s.serveHere(w, r, name, object); err == nil || !time.Now().Before(deadline) {
			return err
		}
		if !sleep.For(ctx, 50*time.Millisecond) { // the stream is beginning or ending on this node
			return context.Cause(ctx)
		}
	}
	if err != nil {
		stored, ok := s.cfg.Remote.Load(ctx, &q)
		switch {
		case ok:
			out = stored
		case errors.Is(err, cluster.ErrNoOwner):
			return s.hls.Absent(ctx, name)
		default:
			return err
		}
	}
	release()
	return s.writeAnswer(w, r, object, &out)
}

// writeAnswer sends a response from another node to the client. The parameter out is this response.
// writeAnswer borrows out, and may remove bytes from its body. If writeAnswer returns an error, the
// error is a [refuse.Refusal], and nothing has been sent.
func (s *players) writeAnswer(w http.ResponseWriter, r *http.Request, object string,
	out *cluster.Object) error {
	if err := answer.Of(r).Resume(0); err != nil {
		return err
	}
	switch _, isObject := hls.ParseObject(object); {
	case out.Status != http.StatusOK:
		if out.RetryAfter != "" {
			w.Header().Set("Retry-After", out.RetryAfter)
		}
		refused := refuse.New(out.Status, "%s", bytes.TrimSpace(out.Body.Bytes()))
		s.cfg.Refusals.NoteRequest(access.Viewer, r, refused)
		s.cfg.Budget.LimitWrite(w)
		refuse.Write(w, out.Status, refused.Reason)
		return nil
	case isObject:
		body := newObjectBody()
		defer body.release()
		body.rest.Merge(&out.Body)
		return s.writeObject(w, r, object, body)
	}
	return s.writePlaylist(w, r, out.Body.Bytes(), out.Gzip, out.Fresh)
}
