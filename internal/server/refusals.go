package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/lock"
	"github.com/millrace-io/millrace/internal/relay"
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

// Causes of refusals that package relay does not have.
const (
	causeBadRequest  relay.Cause = "bad_request"
	causePath        relay.Cause = "path"      // there is nothing
	causeNotFound    relay.Cause = "not_found" // the stream, or a part of its HLS
	causeMethod      relay.Cause = "method"
	causeNoToken     relay.Cause = "no_token"
	causeForbidden   relay.Cause = "forbidden" // a wrong token, a wrong host, or publishing is off
	causeFormat      relay.Cause = "format"
	causeConflict    relay.Cause = "conflict"
	causeUnavailable relay.Cause = "unavailable"
	causeNotOwner    relay.Cause = "not_owner" // another node takes this one for the owner of a stream
	causeProtocol    relay.Cause = "protocol"  // what came is not RTMP, or not TLS
	causeSilent      relay.Cause = "silent"    // nothing came in time, or the client went
	causeAddress     relay.Cause = "address"   // a limit of its address
	causeProxy       relay.Cause = "proxy"     // a PROXY header that is not accepted
	causeHook        relay.Cause = "hook"      // the hook refuses
	causeHookFailed  relay.Cause = "hook_failed"
	causeOther       relay.Cause = "other"
)

// causes has the causes that each kind of client can be refused for. What is not among them counts as causeOther.
var causes = map[clientKind][]relay.Cause{
	clientPublisher: {relay.CauseBadName, causePath, causeMethod, causeNoToken, causeForbidden, causeConflict, relay.CauseLimit,
		relay.CauseMemory, relay.CauseOperator, relay.CauseShutdown, causeUnavailable, causeAddress, causeHook, causeHookFailed,
		causeOther},
	clientViewer: {relay.CauseBadName, causeBadRequest, causePath, causeNotFound, causeMethod, causeNoToken, causeForbidden,
		causeFormat, relay.CauseLimit, relay.CauseMemory, relay.CauseShutdown, causeUnavailable, causeAddress, causeHook,
		causeHookFailed, causeOther},
	clientWriter: {causeNoToken, causeForbidden, causeOther},
	clientReader: {relay.CauseBadName, causeBadRequest, causePath, causeNotFound, causeMethod, causeNoToken, causeForbidden,
		causeConflict, relay.CauseLimit, relay.CauseMemory, causeAddress, causeProxy, causeOther},
	clientNode:    {causeForbidden, causeNotFound, causeNotOwner, relay.CauseShutdown, causeOther},
	clientUnknown: {causeProtocol, causeSilent, causeProxy, causeAddress, relay.CauseLimit, relay.CauseShutdown, causeOther},
}

// ofStatus has the causes of refusals that have none of their own.
var ofStatus = map[int]relay.Cause{
	http.StatusBadRequest:           causeBadRequest,
	http.StatusUnauthorized:         causeNoToken,
	http.StatusForbidden:            causeForbidden,
	http.StatusNotFound:             causeNotFound,
	http.StatusMethodNotAllowed:     causeMethod,
	http.StatusNotAcceptable:        causeFormat,
	http.StatusConflict:             causeConflict,
	http.StatusMisdirectedRequest:   causeNotOwner,
	http.StatusUnsupportedMediaType: causeFormat,
	http.StatusServiceUnavailable:   causeUnavailable,
}

// A refusalKey is what refusals are counted by.
type refusalKey struct {
	client clientKind
	cause  relay.Cause
}

// quiet reports whether port scanners and probes are refused so all the time, or nodes in passing, which ask again and log
// by themselves what lasts: that is logged for debugging only.
func (k refusalKey) quiet() bool {
	switch k.client {
	case clientReader:
		return k.cause == causePath || k.cause == causeMethod || k.cause == causeNoToken
	case clientUnknown:
		return k.cause == causeSilent || k.cause == relay.CauseLimit
	case clientNode:
		return k.cause == causeNotOwner || k.cause == causeNotFound
	}
	return false
}

// refusals counts and logs clients that are refused. A client that comes again and again does not fill the log: beyond
// refusalLines in refusalPeriod for each kind of client, refusals are logged for debugging only.
type refusals struct {
	log *slog.Logger

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

func newRefusals(log *slog.Logger) *refusals {
	r := &refusals{log: log, counts: make(map[refusalKey]int64), lines: make(map[clientKind]*lineLimit)}
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
	key, status := refusalKey{client, causeOther}, 0
	if refused, ok := errors.AsType[*relay.Refusal](why); ok {
		status = refused.Status
		if key.cause = refused.Cause; key.cause == "" {
			key.cause = ofStatus[status]
		}
		if !slices.Contains(causes[client], key.cause) {
			key.cause = causeOther
		}
	}
	level, muted := r.count(key, time.Now())
	if status != 0 {
		attrs = append(attrs, "status", status)
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

// refusal returns a refusal whose cause is that of its status.
func refusal(status int, format string, args ...any) *relay.Refusal {
	return &relay.Refusal{Status: status, Reason: fmt.Sprintf(format, args...)}
}

// refuseRequest notes that the request of a client is refused, and answers it with the error; see setRefusal.
func (s *Server) refuseRequest(client clientKind, w http.ResponseWriter, r *http.Request, why error) {
	if client == clientViewer {
		s.origins.Load().allow(w.Header(), r) // without it a player on another site cannot see the status
	}
	s.refused(client, r, why)
	refuseBody(w, r, setRefusal(w.Header(), why), why.Error())
}

// setRefusal fills the head of an answer that refuses with an error, a [relay.Refusal] or that of a client which has
// gone away. It returns the status.
func setRefusal(h http.Header, why error) (status int) {
	status = relayStatus(why)
	if status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="millrace"`)
	}
	if refused, ok := errors.AsType[*relay.Refusal](why); ok && refused.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(refused.RetryAfter.Seconds()))))
	}
	return status
}

// relayStatus returns the status for an error of package relay.
func relayStatus(err error) int {
	if refused, ok := errors.AsType[*relay.Refusal](err); ok {
		return refused.Status
	}
	return http.StatusServiceUnavailable // the client has gone away
}

// refused notes that the request of a client is refused.
func (s *Server) refused(client clientKind, r *http.Request, why error) {
	if fromNode(r) {
		client = clientNode
	}
	if strings.HasPrefix(r.URL.Path, "/live/") {
		why = s.unnamed(why, requestedStream(r))
	}
	s.refusals.note(client, why, "method", r.Method, "path", s.loggedPath(client, r.URL.Path), "client", r.RemoteAddr)
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
