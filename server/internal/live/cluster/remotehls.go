package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/internal/sleep"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

const (
	// followEvery is how often RemoteHLS checks whether the node to which it sent a request still
	// owns the stream. A node that has lost the stream may never answer.
	followEvery = 500 * time.Millisecond
	// ownerWait is the minimum value of RemoteHLS.Wait. A node needs about this time to restart.
	ownerWait = 2 * time.Second
	// firstPause is the pause after the first failed request to an owner. The pause doubles after
	// each further failure, up to mostPause.
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
	// storedFresh is how long a playlist from the store of segments is cached. A playlist from the
	// node that owns the stream is cached for the same time.
	storedFresh = time.Second
)

var (
	// ErrHere means that this node owns the stream.
	ErrHere       = errors.New("this node has the stream")
	errOtherOwner = errors.New("the stream has another owner now")
)

// An ownerSource finds the owners of streams. The ownerFinder of a Node implements it.
type ownerSource interface {
	Owner(ctx context.Context, name string) (Owner, error)
	awaitOwner(ctx context.Context, name string) (Owner, error)
	formerOwner(name string) (o Owner, ok bool)
	forget(name string, epoch uint64)
	forgetFormer(name string, epoch uint64)
}

// A RemoteHLS gets the HLS of other nodes' streams from their owners or, if there is no owner, from
// the store of segments.
type RemoteHLS struct {
	owners  ownerSource
	self    string // the address of this node
	objects *Objects
	store   *Segments // may be nil

	Wait time.Duration // limits the time that players wait for an owner
}

// NewRemoteHLS returns a RemoteHLS for the players at the node n. viewerWait limits how long a
// player's request waits for a node that owns the stream. If viewerWait is less than ownerWait, the
// limit is ownerWait. store may be nil.
func NewRemoteHLS(n *Node, objects *Objects, store *Segments, viewerWait time.Duration) *RemoteHLS {
	return &RemoteHLS{owners: n.finder, self: n.cfg.Self, objects: objects, store: store,
		Wait: max(viewerWait, ownerWait)}
}

// An HLSRequest is a player's request.
type HLSRequest struct {
	Stream string
	Object string // the file name of the playlist or other object
	Query  string // "", or the query of a media playlist: "?" and the parameters in a fixed order
	Blocks bool   // the request waits for the next segment or part
	Gzip   bool   // the player accepts a compressed playlist
}

func (q *HLSRequest) target() string { return "/live/" + q.Stream + "/" + q.Object + q.Query }

func (q *HLSRequest) isPlaylist() bool {
	return q.Object == hlslive.MasterName || hlslive.IsMedia(q.Object)
}

// mayGoBack reports whether a cached response could contain an older playlist than the player
// already has. That can happen if the player's last playlist came from another node.
func (q *HLSRequest) mayGoBack() bool { return q.isPlaylist() && !q.Blocks }

// InStore reports whether a store keeps the requested object. It keeps all objects except parts.
func (q *HLSRequest) InStore() bool {
	o, ok := hls.ParseObject(q.Object)
	return ok && o.Kind != hls.KindPart
}

// Get returns the response to the player's request q for an HLS object. The caller owns the body of
// the response.
//
// Usually the response comes from the node that owns the stream. The response may also come from
// the store of segments, or from the former owner, which keeps the end of a stream for a while.
//
// If the owner is not known or does not answer, Get tries again for up to h.Wait. If there is no
// owner, Get tries again only for playlists, because a new owner does not have the old segments.
//
// If this node is the owner, the error is ErrHere. If no node has had the stream recently, the
// error is ErrNoOwner. Any other error is a *[refuse.Refusal] or context.Cause(ctx).
func (h *RemoteHLS) Get(ctx context.Context, q *HLSRequest) (out Object, err error) {
	var deadline time.Time // set at the first failure
	for wait := firstPause; ; wait = min(2*wait, mostPause) {
		owner, lost := h.owners.Owner(ctx, q.Stream)
		fetch, forget := h.fetchFrom, h.owners.forget
		former := false
		if errors.Is(lost, ErrNoOwner) {
			// The former owner may have newer segments than the store: it may have lost Redis, and
			// still have the publisher.
			var o Owner
			if o, former = h.owners.formerOwner(q.Stream); former {
				owner, lost, fetch, forget = o, nil, h.fetchFormer, h.owners.forgetFormer
			}
		}
		switch {
		case lost != nil:
			err = lost
		case owner.Node == h.self:
			return Object{}, ErrHere
		default:
			out, err = fetch(ctx, owner, q)
			if err != nil && ctx.Err() == nil && !errors.Is(err, errFull) {
				forget(q.Stream, owner.Epoch)
			}
		}
		// The node that owns the stream does not have the object, but the store may.
		gone := err == nil && out.Status == http.StatusNotFound && (q.InStore() || former)
		// An owner that shuts down answers with StatusServiceUnavailable.
		if err == nil && !gone && out.Status != http.StatusServiceUnavailable {
			return out, nil
		}
		if ctx.Err() != nil {
			out.Body.Release()
			return Object{}, context.Cause(ctx)
		}
		if stored, ok := h.Load(ctx, q); ok {
			out.Body.Release()
			return stored, nil
		}
		switch {
		case gone:
			return out, nil
		case deadline.IsZero():
			deadline = time.Now().Add(h.Wait)
		case !time.Now().Before(deadline):
			if err == nil {
				return out, nil // with status 503
			}
			return Object{}, h.absentError(ctx, q, err)
		}
		out.Body.Release()
		if errors.Is(err, ErrNoOwner) && !q.isPlaylist() { // a new owner will not have the object
			return Object{}, h.absentError(ctx, q, err)
		}
		if lost != nil {
			until, cancel := context.WithDeadline(ctx, deadline)
			_, _ = h.owners.awaitOwner(until, q.Stream)
			cancel()
			continue
		}
		sleep.For(ctx, wait)
	}
}

// absentError returns the error that a player gets after a request has failed with the error err.
// If the stream existed recently, or seems to exist, the error asks the player to try again.
func (h *RemoteHLS) absentError(ctx context.Context, q *HLSRequest, err error) error {
	known := !errors.Is(err, ErrNoOwner)
	if !known && q.isPlaylist() {
		out, found := h.Load(ctx, &HLSRequest{Stream: q.Stream, Object: hlslive.MasterName})
		out.Body.Release()
		known = found
	}
	if known {
		return refuse.New(http.StatusServiceUnavailable,
			"the node that had the stream %q does not answer", q.Stream).After(ownerWait)
	}
	return ErrNoOwner
}

// fetchFrom sends the request to the owner. If several players send the same request, the owner
// gets only one request. fetchFrom cancels the request when the node no longer owns the stream.
func (h *RemoteHLS) fetchFrom(ctx context.Context, owner Owner, q *HLSRequest) (Object, error) {
	path := q.target()
	key := path
	if q.isPlaylist() { // the next owner has another playlist
		key = fmt.Sprint(owner.Node, " ", owner.Epoch, " ", q.Gzip, path)
	}
	return h.objects.Get(ctx, key, func(ctx context.Context, reserve func(n int64) error) (Object,
		error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go h.follow(ctx, q.Stream, owner, cancel)
		out, err := h.objects.From(owner.Node, path, owner.Epoch, q.Gzip)(ctx, reserve)
		if err != nil {
			err = cmp.Or(context.Cause(ctx), err)
		}
		out.Once = q.mayGoBack()
		return out, err
	})
}

// fetchFormer is like fetchFrom, for a former owner, which may be dead. Unless the request waits
// for the next segment or part, fetchFormer gives up after ownerWait.
func (h *RemoteHLS) fetchFormer(ctx context.Context, former Owner, q *HLSRequest) (Object, error) {
	if !q.Blocks {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ownerWait)
		defer cancel()
	}
	return h.fetchFrom(ctx, former, q)
}

// follow waits until the named stream has an owner other than the parameter owner. It then calls
// cancel, which ends a request to the previous owner. While the stream has no owner, its last owner
// still counts as the owner. follow also returns when ctx ends.
func (h *RemoteHLS) follow(ctx context.Context, name string, owner Owner,
	cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		o, err := h.owners.Owner(ctx, name)
		if errors.Is(err, ErrNoOwner) {
			o, _ = h.owners.formerOwner(name)
			err = nil
		}
		if err == nil && o != owner {
			cancel(errOtherOwner)
			return
		}
	}
}

// Load returns the response to q from the store of segments. If the store cannot answer q, ok is
// false. The caller owns the body.
//   - The store has init segments, complete segments and playlists, but no parts.
//   - A request that waits for the next segment or part is answered only if the stream has ended,
//     because then there is nothing to wait for.
func (h *RemoteHLS) Load(ctx context.Context, q *HLSRequest) (out Object, ok bool) {
	if h.store == nil || !q.isPlaylist() && !q.InStore() {
		return Object{}, false
	}
	if q.Blocks {
		plain, found := h.Load(ctx, &HLSRequest{Stream: q.Stream, Object: q.Object})
		defer plain.Body.Release()
		if !found || !bytes.HasSuffix(plain.Body.Bytes(), []byte("#EXT-X-ENDLIST\n")) {
			return Object{}, false
		}
	}
	key := fmt.Sprint("store ", q.Gzip, " ", q.Stream, "/", q.Object)
	out, err := h.objects.Get(ctx, key, func(ctx context.Context,
		reserve func(n int64) error) (out Object, err error) {
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
		return Object{}, false
	}
	return out, true
}

func (h *RemoteHLS) loadObject(ctx context.Context, q *HLSRequest) (out Object, err error) {
	out = Object{Status: http.StatusNotFound, Fresh: maxFresh}
	o, _ := hls.ParseObject(q.Object)
	found, err := h.store.Load(ctx, q.Stream, o, &out.Body, int(h.objects.maxObject))
	if found {
		out.Status = http.StatusOK
	}
	return out, err
}

func (h *RemoteHLS) loadPlaylist(ctx context.Context, q *HLSRequest) (out Object, err error) {
	ctx, cancel := context.WithTimeout(ctx, ownerWait)
	defer cancel()
	out = Object{Status: http.StatusNotFound, Fresh: storedFresh}
	state, err := h.store.LoadState(ctx, q.Stream)
	if err != nil || state == nil {
		return out, err
	}
	list, media, err := hlslive.Stored(state)
	if err != nil {
		return out, err
	}
	if q.Object != hlslive.MasterName {
		list = media
	}
	text := list.Text
	if q.Gzip {
		text = list.Gzip
	}
	out.Status, out.Gzip = http.StatusOK, q.Gzip
	out.Body.AppendCopy(text)
	return out, nil
}
