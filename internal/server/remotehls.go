package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/millrace-io/millrace/frame/hls"
	"github.com/millrace-io/millrace/internal/cluster"
	"github.com/millrace-io/millrace/internal/relay"
)

const (
	// followEvery is how often it is looked whether the node that is asked still owns the stream: it may never answer.
	followEvery = 500 * time.Millisecond
	// ownerWait is how long players wait for an owner, at least: one that restarts needs as long.
	ownerWait = 2 * time.Second
	// The pause between two attempts to get something from an owner doubles from firstPause on.
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
	// storedFresh is how long a playlist from the store is kept: as long as one of an owner.
	storedFresh = time.Second
)

// owners says which node owns which stream. A [cluster.Node] does.
type owners interface {
	Owner(ctx context.Context, name string) (cluster.Owner, error)
	AwaitOwner(ctx context.Context, name string) (cluster.Owner, error)
	Forget(name string, epoch uint64)
}

// A remoteHLS gets the HLS of streams that this node does not own: from their owners, and while there is none, from the
// store.
type remoteHLS struct {
	hub     *relay.Hub
	owners  owners
	self    string // the address of this node
	objects *cluster.Objects
	store   *cluster.Segments // nil if there is none
	limit   int               // of an object from the store, in bytes
	wait    time.Duration
}

// newRemoteHLS returns what gets HLS of other nodes. store may be nil.
func newRemoteHLS(hub *relay.Hub, owners owners, objects *cluster.Objects, cfg *Config, store *cluster.Segments) *remoteHLS {
	return &remoteHLS{
		hub: hub, owners: owners, self: cfg.self(), objects: objects, store: store,
		limit: int(cfg.HLS.MaxBytes), // a segment has half of it at most, and all nodes should have the same
		wait:  max(cfg.ViewerWait, ownerWait),
	}
}

// collect reports the metrics.
func (h *remoteHLS) collect(c scrape) {
	st := h.objects.Stats()
	c.counter("cluster_objects_fetched_total", "Requests for HLS to other nodes, and to the store.", st.Fetched)
	c.counter("cluster_objects_collapsed_total", "Requests of players that waited for such a request of another player.", st.Collapsed)
	c.counter("cluster_objects_cached_total", "Requests of players that found what another one had asked for.", st.Hits)
	c.counter("cluster_objects_failed_total", "Requests for HLS to other nodes, and to the store, that failed.", st.Failed)
	c.counter("cluster_objects_bytes_total", "Bytes of HLS that came from other nodes, and from the store.", st.BytesIn)
	c.gauge("cluster_cache_bytes", "Bytes of HLS of other nodes that are kept, or are coming.", st.Bytes)
	if h.store != nil {
		st := h.store.Stats()
		c.counter("cluster_segments_saved_total", "Segments of HLS that were saved where they outlive this node.", st.Saved)
		c.counter("cluster_segments_saved_bytes_total", "Bytes of these.", st.Bytes)
		c.counter("cluster_segments_lost_total", "Segments and playlists of HLS that could not be saved.", st.Lost)
		c.counter("cluster_segments_loaded_total", "Segments that were read from where they were saved.", st.Loaded)
	}
}

// A hlsRequest is what a player asks for.
type hlsRequest struct {
	name, object string
	query        string     // of the media playlist: "" or "?" and what it asks for, in one order
	blocks       bool       // for what comes next
	stored       hls.Object // if the store may have it
	zip          bool
}

func newHLSRequest(r *http.Request, name, object string) (q hlsRequest, err error) {
	q = hlsRequest{name: name, object: object}
	q.zip = q.isPlaylist() && wantsGzip(r)
	if o, ok := hls.ParseObject(object); ok && o.Kind != hls.KindPart {
		q.stored = o
	}
	if object != relay.HLSMediaName {
		return q, nil
	}
	all, known := r.URL.Query(), make(url.Values)
	if _, q.blocks, err = hls.ParseReload(all); err != nil {
		return q, &relay.Refusal{Status: http.StatusBadRequest, Reason: err.Error()}
	}
	for _, name := range []string{"_HLS_msn", "_HLS_part", "_HLS_skip"} {
		if v := all.Get(name); v != "" {
			known.Set(name, v)
		}
	}
	if len(known) > 0 {
		q.query = "?" + known.Encode()
	}
	return q, nil
}

func (q *hlsRequest) path() string { return "/live/" + q.name + "/" + q.object + q.query }

// isPlaylist reports whether q may have another answer later.
func (q *hlsRequest) isPlaylist() bool {
	return q.object == relay.HLSMasterName || q.object == relay.HLSMediaName
}

// mayGoBack reports whether a player that gets a kept answer, after one of another node, may see its playlist go back.
func (q *hlsRequest) mayGoBack() bool { return q.isPlaylist() && !q.blocks }

// serveHLSElsewhere is serveHLS of what there is not here, which err says. It returns why it is not anywhere.
func (s *Server) serveHLSElsewhere(w http.ResponseWriter, r *http.Request, name, object string, err error) error {
	elsewhere := errors.Is(err, relay.ErrElsewhere)
	if elsewhere && fromNode(r) { // which is told to look again who the owner is
		return &relay.Refusal{Status: http.StatusMisdirectedRequest, Reason: fmt.Sprintf("this node does not own the stream %q", name)}
	}
	q, bad := newHLSRequest(r, name, object)
	switch {
	case bad != nil:
		return bad
	case !elsewhere && (relayStatus(err) != http.StatusNotFound || q.stored.Kind == 0 || fromNode(r)):
		return err
	}
	ctx, release, full := s.relay.Admit(r.Context())
	if full != nil {
		return full
	}
	defer release()
	var out cluster.Object
	defer func() { out.Body.Release() }()
	for deadline := time.Now().Add(s.node.hls.wait); errors.Is(err, relay.ErrElsewhere); {
		if out, err = s.node.hls.get(ctx, &q); err != errHere {
			break
		}
		if err = s.serveHLSHere(w, r, name, object); err == nil || time.Now().After(deadline) {
			return err
		}
		pause(ctx, firstPause) // the stream comes or goes
	}
	if err != nil {
		stored, ok := s.node.hls.load(ctx, &q)
		if !ok {
			return err
		}
		out = stored
	}
	release()
	s.writeAnswer(w, r, object, &out)
	return nil
}

// writeAnswer answers with what another node has answered. It borrows out, whose body is empty or shorter then.
func (s *Server) writeAnswer(w http.ResponseWriter, r *http.Request, object string, out *cluster.Object) {
	switch _, isObject := hls.ParseObject(object); {
	case out.Status != http.StatusOK:
		if out.RetryAfter != "" {
			w.Header().Set("Retry-After", out.RetryAfter)
		}
		refused := &relay.Refusal{Status: out.Status, Reason: string(bytes.TrimSpace(out.Body.Bytes()))}
		s.refused(clientViewer, r, refused)
		s.limitWrite(w)
		refuse(w, out.Status, refused.Reason)
	case isObject:
		s.writeObject(w, r, object, &out.Body)
	default:
		s.writePlaylist(w, r, out.Body.Bytes(), out.Gzip, out.Fresh)
	}
}

var (
	// errHere says that this node is the owner.
	errHere = errors.New("this node has the stream")
	// errOtherOwner ends a request to a node that does not own the stream any more.
	errOtherOwner = errors.New("the stream has another owner now")
)

// get returns what the owner of the stream answers, or the store. It waits for an owner as viewers do. The body belongs to
// the caller.
func (h *remoteHLS) get(ctx context.Context, q *hlsRequest) (out cluster.Object, err error) {
	var deadline time.Time // from the first failure on
	for wait := firstPause; ; wait = min(2*wait, mostPause) {
		owner, lost := h.owners.Owner(ctx, q.name)
		switch {
		case lost != nil:
			err = lost
		case owner.Node == h.self:
			return cluster.Object{}, errHere
		default:
			out, err = h.fetch(ctx, owner, q)
			if err != nil {
				h.owners.Forget(q.name, owner.Epoch)
			}
		}
		gone := err == nil && out.Status == http.StatusNotFound && q.stored.Kind != 0 // but the store may have it
		if err == nil && !gone && out.Status != http.StatusServiceUnavailable {       // which it is while the owner shuts down
			return out, nil
		}
		if ctx.Err() != nil {
			out.Body.Release()
			return cluster.Object{}, context.Cause(ctx)
		}
		if stored, ok := h.load(ctx, q); ok {
			out.Body.Release()
			return stored, nil
		}
		switch {
		case gone:
			return out, nil
		case deadline.IsZero():
			deadline = time.Now().Add(h.wait)
		case time.Now().After(deadline):
			if err == nil {
				return out, nil // 503
			}
			return cluster.Object{}, h.absent(ctx, q, err)
		}
		out.Body.Release()
		if errors.Is(err, cluster.ErrNoOwner) && !q.isPlaylist() { // it is of an owner of the past
			return cluster.Object{}, h.absent(ctx, q, err)
		}
		if lost != nil {
			until, cancel := context.WithDeadline(ctx, deadline)
			_, _ = h.owners.AwaitOwner(until, q.name)
			cancel()
			continue
		}
		pause(ctx, wait)
	}
}

// absent returns what a player is told that could not get what it asked for, for which err is the reason. If the stream was
// there lately, or is said to be, the player should try again.
func (h *remoteHLS) absent(ctx context.Context, q *hlsRequest, err error) error {
	known := !errors.Is(err, cluster.ErrNoOwner)
	if !known && q.isPlaylist() {
		out, found := h.load(ctx, &hlsRequest{name: q.name, object: relay.HLSMasterName})
		out.Body.Release()
		known = found
	}
	if known {
		return &relay.Refusal{Status: http.StatusServiceUnavailable, RetryAfter: ownerWait,
			Reason: fmt.Sprintf("the node that had the stream %q does not answer", q.name)}
	}
	return h.hub.HLSAbsent(ctx, q.name)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// fetch asks the owner, once for all players that want the same, and until it is the owner no more.
func (h *remoteHLS) fetch(ctx context.Context, owner cluster.Owner, q *hlsRequest) (cluster.Object, error) {
	path := q.path()
	key := path
	if q.isPlaylist() { // the next owner has another one
		key = fmt.Sprint(owner.Node, " ", owner.Epoch, " ", q.zip, path)
	}
	return h.objects.Get(ctx, key, func(ctx context.Context, reserve func(n int64) error) (cluster.Object, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go h.follow(ctx, q.name, owner, cancel)
		out, err := h.objects.From(owner.Node, path, q.zip)(ctx, reserve)
		if err != nil {
			err = cmp.Or(context.Cause(ctx), err)
		}
		out.Once = q.mayGoBack()
		return out, err
	})
}

// follow cancels what is asked of owner when that does not own the stream any more. It ends with ctx.
func (h *remoteHLS) follow(ctx context.Context, name string, owner cluster.Owner, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if o, err := h.owners.Owner(ctx, name); errors.Is(err, cluster.ErrNoOwner) || err == nil && o != owner {
			cancel(errOtherOwner)
			return
		}
	}
}

// load returns what the store has, and whether that answers q: objects, and playlists for players that do not wait, or need
// not because the stream has ended. The body belongs to the caller.
func (h *remoteHLS) load(ctx context.Context, q *hlsRequest) (out cluster.Object, ok bool) {
	if h.store == nil || !q.isPlaylist() && q.stored.Kind == 0 {
		return cluster.Object{}, false
	}
	if q.blocks {
		plain, found := h.load(ctx, &hlsRequest{name: q.name, object: q.object})
		defer plain.Body.Release()
		if !found || !bytes.HasSuffix(plain.Body.Bytes(), []byte("#EXT-X-ENDLIST\n")) {
			return cluster.Object{}, false
		}
	}
	key := fmt.Sprint("store ", q.zip, " ", q.name, "/", q.object)
	out, err := h.objects.Get(ctx, key, func(ctx context.Context, reserve func(n int64) error) (out cluster.Object, err error) {
		if q.isPlaylist() {
			out, err = h.loadPlaylist(ctx, q)
		} else {
			out, err = h.loadObject(ctx, q)
		}
		if err == nil {
			err = reserve(int64(out.Body.Len()))
		}
		if err != nil {
			out.Body.Release()
		}
		out.Once = q.mayGoBack()
		return out, err
	})
	if err != nil || out.Status != http.StatusOK {
		out.Body.Release()
		return cluster.Object{}, false
	}
	return out, true
}

func (h *remoteHLS) loadObject(ctx context.Context, q *hlsRequest) (out cluster.Object, err error) {
	out = cluster.Object{Status: http.StatusNotFound, Fresh: objectFresh}
	found, err := h.store.Load(ctx, q.name, q.stored, &out.Body, h.limit)
	if found {
		out.Status = http.StatusOK
	}
	return out, err
}

func (h *remoteHLS) loadPlaylist(ctx context.Context, q *hlsRequest) (out cluster.Object, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownerWait)
	defer cancel()
	out = cluster.Object{Status: http.StatusNotFound, Fresh: storedFresh}
	facts, err := h.store.LoadFacts(ctx, q.name)
	if err != nil || facts == nil {
		return out, err
	}
	list, media, err := relay.StoredHLS(facts)
	if err != nil {
		return out, err
	}
	if q.object == relay.HLSMediaName {
		list = media
	}
	text := list.Text
	if q.zip {
		text = list.Gzip
	}
	out.Status, out.Gzip = http.StatusOK, q.zip
	out.Body.AppendCopy(text)
	return out, nil
}
