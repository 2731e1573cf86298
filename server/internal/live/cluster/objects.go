package cluster

import (
	"cmp"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

const (
	// maxPause limits each pause while another node sends the body of a response. It does not limit
	// the time before the response begins.
	maxPause = 10 * time.Second
	// idleConns limits the idle connections to a node. The players of a hundred streams do not need
	// more connections at a time.
	idleConns = 256
	// maxHead limits the header of a response, in bytes. A usual header has a few hundred bytes.
	maxHead = 16 << 10
	// maxText limits the body of another node's error response, in bytes. The body is usually one
	// line of text.
	maxText = 4 << 10
	// maxFresh limits how long an object from another node is cached.
	maxFresh = time.Hour
	// maxUnused is how long an object is cached without being requested.
	maxUnused = time.Minute
	// entryCost is how much memory a cache entry needs in addition to its body, in bytes.
	entryCost = 1 << 10
)

// Objects fetches and caches the HLS objects of other nodes' streams for the players at this node.
// Concurrent requests for an object share one fetch. The cache is limited in bytes, and drops the
// least recently used objects first. It also drops objects that were not requested for a
// minute. The caller must call Close.
type Objects struct {
	max, maxObject int64
	silence        time.Duration
	secret         *Secret
	transport      *http.Transport
	ctx            context.Context // ended by Close, which holds mu
	stop           context.CancelFunc
	fetches        sync.WaitGroup

	// entries contains the objects that are being fetched and the objects in kept. stats.Bytes is
	// the sum of objectEntry.cost for all of them.
	mu      lock.Mutex
	entries map[string]*objectEntry
	kept    list.List   // of *objectEntry, the most recently used first
	sweep   *time.Timer // calls dropUnused; nil if none is scheduled
	stats   ObjectStats
}

// ObjectStats counts the requests for HLS objects of other nodes' streams, and describes the cache.
type ObjectStats struct {
	Fetched   int64 // requests to other nodes and to the store
	Collapsed int64 // calls that waited for a fetch in progress
	Hits      int64 // requests that were answered from the cache
	Failed    int64 // fetches that failed
	BytesIn   int64 // bytes of the bodies that were fetched
	Objects   int64 // objects in the cache
	Bytes     int64 // bytes of cached objects and of fetches in progress
}

// An Object is the response to a request for an HLS object. The receiver owns Body.
type Object struct {
	Status     int
	Gzip       bool          // Body is compressed
	RetryAfter string        // the Retry-After header, or ""
	Fresh      time.Duration // how long the object may be kept after its arrival
	Once       bool          // not cached: only the calls that wait for the object get it
	Body       millrace.Chain
}

// A Fetch fetches an object. It must call the function reserve once, with the length of the body in
// bytes. If reserve returns an error, the Fetch must fail. If the Fetch fails, the body of the
// returned Object is empty.
type Fetch func(ctx context.Context, reserve func(n int64) error) (Object, error)

// An objectEntry is an object that is being fetched or is cached. If calls wait for the object, the
// entry exists until each of these calls has a copy. All fields are guarded by Objects.mu.
type objectEntry struct {
	key      string
	done     chan struct{} // closed when object and err are set
	stop     context.CancelFunc
	waiting  int           // calls that have not taken their copy
	place    *list.Element // element of kept, or nil
	cost     int64
	until    time.Time // time until which the object is fresh
	used     time.Time // time of the last request
	complete bool
	object   Object
	err      error
}

var (
	errNoLength = errors.New("a response without a length, which may be incomplete")
	errSilent   = errors.New("the node pauses in its answer")
	errFull     = errors.New(
		"too much is being fetched from other nodes at a time (--cluster-cache)")
)

// NewObjects returns an Objects that caches up to maxBytes, and accepts no object longer than
// maxObject bytes. secret authenticates the nodes to each other. tlsConfig is for requests to other
// nodes; nil means the default configuration. dial connects to other nodes; nil means
// [live.DialNode]. The caller must call Close.
func NewObjects(maxBytes, maxObject int64, secret *Secret, tlsConfig *tls.Config,
	dial live.Dial) *Objects {
	if dial == nil {
		dial = live.DialNode
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	o := &Objects{
		max: maxBytes, maxObject: maxObject, silence: maxPause, secret: secret,
		entries: make(map[string]*objectEntry),
		transport: &http.Transport{ // no proxy: the request has a proof of the cluster's token
			DialContext: dial, TLSClientConfig: tlsConfig,
			TLSHandshakeTimeout: live.DialTimeout, Protocols: protocols,
			DisableCompression: true, MaxIdleConnsPerHost: idleConns,
			IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: maxHead,
		},
	}
	o.ctx, o.stop = context.WithCancel(context.Background())
	return o
}

// Close ends the fetches in progress, and releases the cache.
func (o *Objects) Close() {
	o.mu.Lock()
	o.stop()
	o.mu.Unlock()
	o.fetches.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.kept.Len() > 0 {
		o.drop(o.kept.Back().Value.(*objectEntry))
	}
	if o.sweep != nil {
		o.sweep.Stop()
	}
	o.transport.CloseIdleConnections()
}

// Stats returns a snapshot of the counters.
func (o *Objects) Stats() ObjectStats {
	o.mu.Lock()
	defer o.mu.Unlock()
	st := o.stats
	st.Objects = int64(o.kept.Len())
	return st
}

// Get returns the object with the given key. If the object is neither cached nor being fetched, Get
// calls fetch. A fetch is cancelled when no call waits for the object any more. The caller owns the
// body of the object, and must release it.
func (o *Objects) Get(ctx context.Context, key string, fetch Fetch) (Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.entries[key]
	if e != nil && e.complete && !time.Now().Before(e.until) {
		o.drop(e)
		e = nil
	}
	switch {
	case o.ctx.Err() != nil:
		return Object{}, refuse.ErrShutdown
	case e == nil:
		o.stats.Fetched++
		e = o.startFetch(key, fetch)
	case e.complete:
		o.stats.Hits++
		e.used = time.Now()
		o.kept.MoveToFront(e.place)
		return e.share()
	default:
		o.stats.Collapsed++
	}
	e.waiting++
	o.mu.Unlock()
	select {
	case <-e.done:
	case <-ctx.Done():
	}
	o.mu.Lock()
	e.waiting--
	defer o.leave(e)
	if !e.complete {
		return Object{}, context.Cause(ctx)
	}
	return e.share()
}

// share returns the entry's object with a reference to its body, or the entry's error.
func (e *objectEntry) share() (Object, error) {
	if e.err != nil {
		return Object{}, e.err
	}
	o := &e.object
	out := Object{Status: o.Status, Gzip: o.Gzip, RetryAfter: o.RetryAfter, Fresh: o.Fresh,
		Once: o.Once}
	o.Body.CloneTo(&out.Body)
	return out, nil
}

// startFetch starts a goroutine that calls fetch, and returns the new entry. The caller must hold
// o.mu.
func (o *Objects) startFetch(key string, fetch Fetch) *objectEntry {
	ctx, stop := context.WithCancel(o.ctx)
	e := &objectEntry{key: key, done: make(chan struct{}), stop: stop}
	o.entries[key] = e
	o.fetches.Go(func() {
		defer stop()
		object, err := fetch(ctx, func(n int64) error { return o.reserve(e, n) })
		o.complete(e, object, err)
	})
	return e
}

// reserve counts n bytes for e, which is being fetched. If necessary, it drops cached objects. If
// there is still no room, it returns errFull.
func (o *Objects) reserve(e *objectEntry, n int64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stats.Bytes+n > o.max+o.maxObject {
		o.makeRoom(n)
	}
	if o.stats.Bytes+n > o.max+o.maxObject {
		return errFull
	}
	e.cost = n
	o.stats.Bytes += n
	return nil
}

// makeRoom drops the least recently used objects until there is room for n more bytes, or the cache
// is empty. The caller must hold o.mu.
func (o *Objects) makeRoom(n int64) {
	for o.kept.Len() > 0 && o.stats.Bytes+n > o.max {
		o.drop(o.kept.Back().Value.(*objectEntry))
	}
}

// Free frees memory because the process is short of it. It drops the least recently used objects
// until it has freed at least excess bytes or the cache is empty, and returns the number of bytes
// freed.
func (o *Objects) Free(excess int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.stats.Bytes
	for o.kept.Len() > 0 && before-o.stats.Bytes < excess {
		o.drop(o.kept.Back().Value.(*objectEntry))
	}
	return before - o.stats.Bytes
}

// dropUnused drops the objects that were not requested for maxUnused.
func (o *Objects) dropUnused() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep = nil
	for o.kept.Len() > 0 {
		e := o.kept.Back().Value.(*objectEntry)
		if rest := maxUnused - time.Since(e.used); rest > 0 {
			o.sweep = time.AfterFunc(rest, o.dropUnused)
			return
		}
		o.drop(e)
	}
}

func (o *Objects) complete(e *objectEntry, object Object, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stats.Bytes -= e.cost
	o.stats.BytesIn += int64(object.Body.Len())
	if err != nil {
		o.stats.Failed++
	}
	e.object, e.err, e.complete = object, err, true
	e.until = time.Now().Add(object.Fresh)
	// The body may be in blocks of up to 64 KiB that are only half full.
	e.cost = int64(e.object.Body.Len()+min(e.object.Body.Len(), 64<<10)) + entryCost
	close(e.done)
	switch current := o.entries[e.key] == e; {
	case current && err == nil && object.Fresh > 0 && !object.Once &&
		object.Status == http.StatusOK && e.cost <= o.max &&
		o.ctx.Err() == nil:
		o.makeRoom(e.cost)
		o.stats.Bytes += e.cost
		e.used, e.place = time.Now(), o.kept.PushFront(e)
		if o.sweep == nil {
			o.sweep = time.AfterFunc(maxUnused, o.dropUnused)
		}
	case current:
		delete(o.entries, e.key)
		fallthrough
	default:
		o.leave(e)
	}
}

// drop removes e, which must be cached, from the cache. The caller must hold o.mu.
func (o *Objects) drop(e *objectEntry) {
	o.kept.Remove(e.place)
	e.place = nil
	delete(o.entries, e.key)
	o.stats.Bytes -= e.cost
	o.leave(e)
}

// leave ends the entry e if e is not cached and no call to Get waits for e. If the fetch is in
// progress, leave cancels the fetch. Otherwise, leave releases the body. The caller must hold o.mu.
func (o *Objects) leave(e *objectEntry) {
	switch {
	case e.waiting > 0 || e.place != nil:
	case e.complete:
		e.object.Body.Release()
	default:
		e.stop()
		if o.entries[e.key] == e {
			delete(o.entries, e.key)
		}
	}
}

// request sends a request for the object at path to another node. The parameter epoch is the epoch
// of that node's ownership of the stream, or 0 if the request requires no ownership. The caller
// must close the body of the response.
func (o *Objects) request(ctx context.Context, node, path string, epoch uint64,
	gzip bool) (*http.Response, error) {
	for retried := false; ; retried = true {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, node+path, nil)
		if err != nil {
			return nil, err
		}
		if gzip {
			req.Header.Set("Accept-Encoding", "gzip")
		}
		o.secret.Sign(req, epoch)
		res, err := o.transport.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		challenged, err := o.secret.Check(res)
		if err == nil {
			return res, nil
		}
		_, _ = io.CopyN(io.Discard, res.Body, maxText) // so that the connection can be used again
		_ = res.Body.Close()
		if !challenged || retried {
			return nil, err
		}
	}
}

// From returns a Fetch that requests an object from another node.
//   - path is the path of the object, with an optional query.
//   - epoch is the epoch of that node's ownership of the stream, or 0 if the request requires no
//     ownership.
//   - gzip allows the node to compress the response with gzip.
//
// The Fetch returns a response with the status 200, 400, 404, 406 or 503. For any other status, it
// returns an error.
func (o *Objects) From(node, path string, epoch uint64, gzip bool) Fetch {
	return func(ctx context.Context, reserve func(n int64) error) (out Object, err error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		res, err := o.request(ctx, node, path, epoch, gzip)
		if err != nil {
			return Object{}, err
		}
		defer res.Body.Close()
		out = Object{Status: res.StatusCode, Gzip: res.Header.Get("Content-Encoding") == "gzip",
			RetryAfter: res.Header.Get("Retry-After")}
		limit := o.maxObject
		switch res.StatusCode {
		case http.StatusOK:
			out.Fresh = maxAge(res.Header.Get("Cache-Control"))
		case http.StatusBadRequest, http.StatusNotFound, http.StatusNotAcceptable,
			http.StatusServiceUnavailable:
			limit = maxText
		default:
			return Object{}, fmt.Errorf("the node answers %d", res.StatusCode)
		}
		switch {
		case res.ContentLength < 0:
			return Object{}, errNoLength
		case res.ContentLength > limit:
			return Object{}, fmt.Errorf("an answer of %d bytes, more than %d", res.ContentLength,
				limit)
		}
		if err := reserve(res.ContentLength); err != nil {
			return Object{}, err
		}
		timer := time.AfterFunc(o.silence, func() { cancel(errSilent) })
		defer timer.Stop()
		if _, err = out.Body.ReadFrom(&bodyReader{res.Body,
			func() { timer.Reset(o.silence) }}); err != nil {
			out.Body.Release()
			return Object{}, cmp.Or(context.Cause(ctx), err)
		}
		return out, nil
	}
}

// maxAge returns the max-age of a Cache-Control header, but at most maxFresh.
func maxAge(cacheControl string) time.Duration {
	for directive := range strings.SplitSeq(cacheControl, ",") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(directive), "max-age="); ok {
			if n, err := strconv.Atoi(value); err == nil && n > 0 {
				return time.Duration(min(n, int(maxFresh/time.Second))) * time.Second
			}
		}
	}
	return 0
}

// A bodyReader reads the body of a response. It does not check the length, because net/http returns
// an error if the body is shorter than its Content-Length.
type bodyReader struct {
	io.Reader
	heard func() // called after each Read that returns bytes
}

func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n > 0 {
		b.heard()
	}
	return n, err
}
