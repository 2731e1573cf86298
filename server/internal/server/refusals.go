package server

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// A clientKind says what a refused client wanted.
type clientKind string

const (
	clientPublisher clientKind = "publisher"
	clientViewer    clientKind = "viewer"
	clientWriter    clientKind = "writer" // of a blob
	clientReader    clientKind = "reader" // of anything else: the page, the API, metrics, files, blobs
	clientNode      clientKind = "node"
	clientUnknown   clientKind = "unknown" // a connection of RTMP that has not said it
)

// causes has the causes that each kind of client can be refused for. What is not among them counts as refuse.Other.
var causes = map[clientKind][]refuse.Cause{
	clientPublisher: {refuse.BadName, refuse.Path, refuse.Method, refuse.NoToken, refuse.Forbidden, refuse.Conflict, refuse.Limit,
		refuse.Memory, refuse.ByOperator, refuse.Shutdown, refuse.Unavailable, refuse.Address, refuse.Hook, refuse.HookFailed,
		refuse.Other},
	clientViewer: {refuse.BadName, refuse.BadRequest, refuse.Path, refuse.NotFound, refuse.Method, refuse.NoToken, refuse.Forbidden,
		refuse.Format, refuse.Limit, refuse.Memory, refuse.Shutdown, refuse.Unavailable, refuse.Address, refuse.Hook,
		refuse.HookFailed, refuse.Other},
	clientWriter: {refuse.NoToken, refuse.Forbidden, refuse.Other},
	clientReader: {refuse.BadName, refuse.BadRequest, refuse.Path, refuse.NotFound, refuse.Method, refuse.NoToken, refuse.Forbidden,
		refuse.Conflict, refuse.Limit, refuse.Memory, refuse.Address, refuse.Proxy, refuse.Other},
	clientNode:    {refuse.Forbidden, refuse.NotFound, refuse.NotOwner, refuse.Shutdown, refuse.Other},
	clientUnknown: {refuse.Protocol, refuse.Silent, refuse.Proxy, refuse.Address, refuse.Limit, refuse.Shutdown, refuse.Other},
}

// A refusalKey is what refusals are counted by.
type refusalKey struct {
	client clientKind
	cause  refuse.Cause
}

// quiet reports whether port scanners and probes are refused so all the time, or nodes in passing, which ask again and log
// by themselves what lasts: that is logged for debugging only.
func (k refusalKey) quiet() bool {
	switch k.client {
	case clientReader:
		return k.cause == refuse.Path || k.cause == refuse.Method || k.cause == refuse.NoToken
	case clientUnknown:
		return k.cause == refuse.Silent || k.cause == refuse.Limit
	case clientNode:
		return k.cause == refuse.NotOwner || k.cause == refuse.NotFound
	}
	return false
}

// refusals counts and logs clients that are refused. A client that comes again and again does not fill the log: beyond
// refusalLines in refusalPeriod for each kind of client, refusals are logged for debugging only.
type refusals struct {
	log         *slog.Logger
	origins     *atomic.Pointer[origins] // whose players may see why they are refused
	secretNames bool                     // with a hook, the name by which a client asks for a stream may be a key

	mu     lock.Mutex
	counts map[refusalKey]int64 // has all keys that there can be
	lines  map[clientKind]*lineLimit
}

const (
	refusalLines  = 20
	refusalPeriod = time.Minute
)

// A lineLimit counts lines of a log.
type lineLimit struct {
	since        time.Time // the period's beginning
	lines, muted int       // muted: since the last line
}

func newRefusals(log *slog.Logger, origins *atomic.Pointer[origins], secretNames bool) *refusals {
	r := &refusals{log: log, origins: origins, secretNames: secretNames, counts: make(map[refusalKey]int64), lines: make(map[clientKind]*lineLimit)}
	for client, list := range causes {
		r.lines[client] = &lineLimit{}
		for _, cause := range list {
			r.counts[refusalKey{client, cause}] = 0
		}
	}
	return r
}

// note counts a refusal, and logs it with attrs, the status if there is one, and the reason. The caller answers.
func (r *refusals) note(client clientKind, why error, attrs ...any) {
	key := refusalKey{client, refuse.CauseOf(why)}
	if !slices.Contains(causes[client], key.cause) {
		key.cause = refuse.Other
	}
	level, muted := r.count(key, time.Now())
	if refused := refuse.Of(why); refused != nil && refused.Status != 0 {
		attrs = append(attrs, "status", refused.Status)
	}
	attrs = append(attrs, "reason", why)
	if muted > 0 {
		attrs = append(attrs, "unlogged", muted)
	}
	message := string(client) + " refused"
	if client == clientUnknown {
		message = "RTMP client refused"
	}
	r.log.Log(context.Background(), level, message, attrs...)
}

// count counts a refusal. It returns the level of its line, and how many before it were not logged for want of room.
func (r *refusals) count(key refusalKey, at time.Time) (level slog.Level, muted int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[key]++
	if key.quiet() {
		return slog.LevelDebug, 0
	}
	l := r.lines[key.client]
	if at.Sub(l.since) >= refusalPeriod {
		l.since, l.lines = at, 0
	}
	if l.lines == refusalLines {
		l.muted++
		return slog.LevelDebug, 0
	}
	l.lines++
	muted, l.muted = l.muted, 0
	return slog.LevelWarn, muted
}

// collect reports the metric of refusals.
func (r *refusals) collect(c scrape) {
	r.mu.Lock()
	counts := maps.Clone(r.counts)
	r.mu.Unlock()
	for key, n := range counts {
		c.counterOf("refused_total", "Clients that were refused, by what they wanted and why.", n,
			"client", string(key.client), "reason", string(key.cause))
	}
}

// refuse notes that the request of a client is refused, and answers it with the error.
func (f *refusals) refuse(client clientKind, w http.ResponseWriter, r *http.Request, why error) {
	if client == clientViewer {
		f.origins.Load().allow(w.Header(), r) // without it a player on another site cannot see the status
	}
	f.noteRequest(client, r, why)
	refuseBody(w, r, refuse.SetHeader(w.Header(), why), why.Error())
}

// noteRequest notes that the request of a client is refused.
func (f *refusals) noteRequest(client clientKind, r *http.Request, why error) {
	if fromNode(r) {
		client = clientNode
	}
	if strings.HasPrefix(r.URL.Path, "/live/") {
		why = f.unnamed(why, requestedStream(r))
	}
	f.note(client, why, "method", r.Method, "path", f.loggedPath(client, r.URL.Path), "client", r.RemoteAddr)
}

// wanted returns what the client of a request wants that no handler knows.
func wanted(r *http.Request) clientKind {
	switch {
	case r.Method == http.MethodPost || r.Method == http.MethodPut:
		return clientPublisher
	case strings.HasPrefix(r.URL.Path, "/live/"):
		return clientViewer
	}
	return clientReader
}

// onlyGet returns h for GET and HEAD, and refuses other methods.
func (f *refusals) onlyGet(h http.HandlerFunc) http.HandlerFunc { return f.only("GET, HEAD", h) }

// only returns h for the methods in a list, and refuses others.
func (f *refusals) only(allowed string, h http.HandlerFunc) http.HandlerFunc {
	methods := strings.Split(allowed, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(methods, r.Method) {
			f.refuseMethod(w, r, allowed)
			return
		}
		h(w, r)
	}
}

// refuseMethod refuses a request whose method is not among those that are allowed.
func (f *refusals) refuseMethod(w http.ResponseWriter, r *http.Request, allowed string) {
	w.Header().Set("Allow", allowed)
	f.refuse(wanted(r), w, r,
		refuse.New(http.StatusMethodNotAllowed, "method %.20q is not allowed here: %s", r.Method, allowed))
}

// loggedPath returns what the log says of the path of a request. Where names may be secret, a publisher may also have mistyped
// what stands before one.
func (f *refusals) loggedPath(client clientKind, path string) string {
	switch {
	case !f.secretNames:
	case strings.HasPrefix(path, "/live/"):
		return "/live/…"
	case client == clientPublisher:
		return "/…"
	}
	return path
}

// unnamed returns a refusal for the log, without the name that the client has asked for, if that may be a secret.
func (f *refusals) unnamed(why error, asked string) error {
	refused := refuse.Of(why)
	if refused == nil || !f.secretNames || asked == "" {
		return why
	}
	hidden := *refused
	if hidden.Reason = strings.ReplaceAll(hidden.Reason, asked, "…"); hidden.Cause == refuse.BadName {
		hidden.Reason = "bad stream name" // which is quoted in part, as a rule
	}
	for _, named := range []string{": the token is for ", ": the claim stream is "} { // names of streams, too
		hidden.Reason, _, _ = strings.Cut(hidden.Reason, named)
	}
	return &hidden
}

func tooMany(things, done string, limit int, flag string) error {
	return refuse.New(http.StatusServiceUnavailable,
		"%d %s are being %s already, as many as --max-%s allows", limit, things, done, flag).For(refuse.Limit).After(time.Second)
}
