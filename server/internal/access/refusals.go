package access

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// A Kind says what a refused client has tried to do.
type Kind string

// Kinds of clients.
const (
	Publisher Kind = "publisher"
	Viewer    Kind = "viewer"
	Writer    Kind = "writer" // writes a blob
	Reader    Kind = "reader" // reads anything else: the page, the API, metrics, files, blobs
	Node      Kind = "node"
	Unknown   Kind = "unknown" // an RTMP connection without a request
)

// The map causes contains the possible causes of a refusal for each kind of client. A refusal with
// any other cause is counted as refuse.Other.
var causes = map[Kind][]refuse.Cause{
	Publisher: {refuse.BadName, refuse.Path, refuse.Method, refuse.NoToken, refuse.Forbidden,
		refuse.Conflict, refuse.Limit, refuse.Memory, refuse.ByOperator, refuse.Shutdown,
		refuse.Unavailable, refuse.Address, refuse.Hook, refuse.HookFailed, refuse.Other},
	Viewer: {refuse.BadName, refuse.BadRequest, refuse.Path, refuse.NotFound, refuse.Method,
		refuse.NoToken, refuse.Forbidden, refuse.Format, refuse.Limit, refuse.Memory,
		refuse.Shutdown, refuse.Unavailable, refuse.Address, refuse.Hook, refuse.HookFailed,
		refuse.Other},
	Writer: {refuse.NoToken, refuse.Forbidden, refuse.Other},
	Reader: {refuse.BadName, refuse.BadRequest, refuse.Path, refuse.NotFound, refuse.Method,
		refuse.NoToken, refuse.Forbidden, refuse.Conflict, refuse.Limit, refuse.Memory,
		refuse.Address, refuse.Proxy, refuse.Other},
	Node: {refuse.Forbidden, refuse.NotFound, refuse.NotOwner, refuse.Shutdown, refuse.Other},
	Unknown: {refuse.Protocol, refuse.Silent, refuse.Proxy, refuse.Address, refuse.Limit,
		refuse.Shutdown, refuse.Other},
}

// Refused classifies a refusal by the kind of client and the cause. Each class has its own counter.
type Refused struct {
	Client Kind
	Cause  refuse.Cause
}

// isNoise reports whether a refusal is routine. Routine refusals are logged only at debug level.
// They are caused by port scanners, probes and other nodes. If another node has a lasting problem,
// that node retries its requests and logs the problem.
func (k Refused) isNoise() bool {
	switch k.Client {
	case Reader:
		return k.Cause == refuse.Path || k.Cause == refuse.Method || k.Cause == refuse.NoToken
	case Unknown:
		return k.Cause == refuse.Silent || k.Cause == refuse.Limit
	case Node:
		return k.Cause == refuse.NotOwner || k.Cause == refuse.NotFound
	}
	return false
}

// Refusals sends errors to refused clients, and counts and logs the refusals. For each kind of
// client, it logs at most refusalLines refusals per refusalPeriod as warnings, and the other
// refusals at debug level. Clients that retry therefore do not fill the log.
type Refusals struct {
	log         *slog.Logger
	origins     *Origins // sites whose scripts may read the reason of a refusal
	secretNames bool     // whether stream names may be secret keys, as some hooks require

	mu     lock.Mutex
	counts map[Refused]int64 // has an entry for every possible key
	lines  map[Kind]*lineLimit
}

const (
	refusalLines  = 20
	refusalPeriod = time.Minute
)

// A lineLimit counts the warnings about one kind of client in the current refusalPeriod.
type lineLimit struct {
	since        time.Time
	lines, muted int // muted is the number of refusals since the last warning
}

// NewRefusals returns a Refusals that writes to log. Scripts of the web sites in origins can read
// why a viewer is refused. The Refusals borrows origins. If secretNames is set, requested stream
// names are hidden in the log.
func NewRefusals(log *slog.Logger, origins *Origins, secretNames bool) *Refusals {
	r := &Refusals{
		log: log, origins: origins, secretNames: secretNames,
		counts: make(map[Refused]int64), lines: make(map[Kind]*lineLimit),
	}
	for client, list := range causes {
		r.lines[client] = &lineLimit{}
		for _, cause := range list {
			r.counts[Refused{client, cause}] = 0
		}
	}
	return r
}

// Note records a refused client in the counters and in the log. The error err is the reason, and
// attrs contains further attributes for the log. The caller must send the response to the client.
func (f *Refusals) Note(client Kind, err error, attrs ...any) {
	key := Refused{client, refuse.CauseOf(err)}
	if !slices.Contains(causes[client], key.Cause) {
		key.Cause = refuse.Other
	}
	level, muted := f.countRefusal(key, time.Now())
	if refused := refuse.Of(err); refused != nil && refused.Status != 0 {
		attrs = append(attrs, "status", refused.Status)
	}
	attrs = append(attrs, "reason", err)
	if muted > 0 {
		attrs = append(attrs, "unlogged", muted)
	}
	message := string(client) + " refused"
	if client == Unknown {
		message = "RTMP client refused"
	}
	f.log.Log(context.Background(), level, message, attrs...)
}

// countRefusal increments the counter of a refusal, and returns the level at which to log the
// refusal. Usually the level is Warn. It is Debug for a routine refusal, and after refusalLines
// warnings about the same kind of client in one refusalPeriod.
//
// With the level Warn, countRefusal also returns the number of refusals above this limit since the
// previous warning about this kind of client.
func (f *Refusals) countRefusal(key Refused, now time.Time) (level slog.Level, muted int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[key]++
	if key.isNoise() {
		return slog.LevelDebug, 0
	}
	l := f.lines[key.Client]
	if now.Sub(l.since) >= refusalPeriod {
		l.since, l.lines = now, 0
	}
	if l.lines == refusalLines {
		l.muted++
		return slog.LevelDebug, 0
	}
	l.lines++
	muted, l.muted = l.muted, 0
	return slog.LevelWarn, muted
}

// Counts returns the number of refusals since the start. The map has an entry for each kind of
// client and each cause that is possible for this kind.
func (f *Refusals) Counts() map[Refused]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

// Refuse logs and counts the refusal of a request, and sends the error to the client. It closes the
// connection if a request body may still be arriving.
func (f *Refusals) Refuse(client Kind, w http.ResponseWriter, r *http.Request, err error) {
	if client == Viewer {
		// Without this header a player on another site cannot see the status.
		f.origins.Allow(w.Header(), r)
	}
	f.NoteRequest(client, r, err)
	refuse.WriteAndClose(w, r, refuse.SetHeader(w.Header(), err), err.Error())
}

// NoteRequest logs and counts the refusal of a request. The caller must answer the client.
func (f *Refusals) NoteRequest(client Kind, r *http.Request, err error) {
	if _, ok := NodeOf(r); ok {
		client = Node
	}
	err = f.WithoutName(err, streamname.InPath(r.URL.Path))
	f.Note(client, err, "method", r.Method, "path", f.loggedPath(client, r.URL.Path), "client",
		r.RemoteAddr)
}

// KindOf returns what a refused client has tried to do: publish, view a stream, or read something
// else. It uses only the method and the path of the request.
func KindOf(r *http.Request) Kind {
	switch {
	case r.Method == http.MethodPost || r.Method == http.MethodPut:
		return Publisher
	case strings.HasPrefix(r.URL.Path, streamname.Path):
		return Viewer
	}
	return Reader
}

// Only returns a handler that calls h for the listed methods, such as "GET, HEAD", and refuses
// other requests.
func (f *Refusals) Only(methods string, h http.HandlerFunc) http.HandlerFunc {
	list := strings.Split(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(list, r.Method) {
			f.RefuseMethod(w, r, methods)
			return
		}
		h(w, r)
	}
}

// RefuseMethod refuses a request because of its method. The caller passes the allowed methods, as
// in "GET, HEAD".
func (f *Refusals) RefuseMethod(w http.ResponseWriter, r *http.Request, methods string) {
	w.Header().Set("Allow", methods)
	f.Refuse(KindOf(r), w, r,
		refuse.New(http.StatusMethodNotAllowed, "method %.20q is not allowed here: %s", r.Method,
			methods))
}

// loggedPath returns the path to log for a request. If stream names may be secret, loggedPath hides
// the name after /live/. If a publisher's path does not begin with /live/, loggedPath hides the
// whole path, because a secret name may follow a mistyped prefix.
func (f *Refusals) loggedPath(client Kind, path string) string {
	switch {
	case !f.secretNames:
	case strings.HasPrefix(path, streamname.Path):
		return streamname.Path + "…"
	case client == Publisher:
		return "/…"
	}
	return path
}

// WithoutName makes a refusal safe to log. If stream names may be secret, it returns a copy of err
// that does not contain the requested name or a name from a token. Otherwise it returns err.
func (f *Refusals) WithoutName(err error, name string) error {
	refused := refuse.Of(err)
	if refused == nil || !f.secretNames || name == "" {
		return err
	}
	hidden := *refused
	hidden.Reason = strings.ReplaceAll(hidden.Reason, name, "…")
	if hidden.Cause == refuse.BadName {
		hidden.Reason = "bad stream name" // the reason usually quotes a part of the name
	}
	// Some errors of package token contain the stream name from the token, which may be secret. The
	// name comes after one of these texts. Remove everything after the text.
	for _, words := range []string{
		"the token is for another stream", "the claim stream is invalid",
	} {
		if before, _, found := strings.Cut(hidden.Reason, words); found {
			hidden.Reason = before + words
		}
	}
	return &hidden
}
