package ops

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/push"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// An Operator serves the operator's requests about single streams and viewers. The caller must
// check permissions.
type Operator struct {
	streams  live.Operator
	pushes   *push.Pusher
	budget   *answer.Budget
	refusals *access.Refusals
	log      *slog.Logger
}

// NewOperator returns an Operator for the streams and viewers of o.Hub.
func NewOperator(o *Observer) *Operator {
	return &Operator{streams: live.NewOperator(o.Hub), pushes: o.Push, budget: o.Budget,
		refusals: o.Refusals, log: o.Log}
}

// maxListed is the maximum number of viewers in one response.
const maxListed = 1000

// Stream serves GET /api/streams/NAME. The response describes the stream and its viewers.
func (o *Operator) Stream(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	var after uint64
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			o.refusals.Refuse(access.Reader, w, r,
				refuse.New(http.StatusBadRequest, "bad after=%.40q: want the number of a viewer",
					text))
			return
		}
	}
	if !o.budget.Lend(w, r, maxListed*streamBytes/4) {
		return
	}
	info, ok := o.streams.Stream(name)
	viewers, _ := o.streams.Viewers(name, after, maxListed)
	if !ok {
		o.refusals.Refuse(access.Reader, w, r,
			refuse.New(http.StatusNotFound, "no stream %.200q", name))
		return
	}
	writeJSON(w, struct {
		Stream  live.StreamInfo   `json:"stream"`
		Viewers []live.ViewerInfo `json:"viewers"`
	}{info, viewers})
}

const (
	// refuseEnded is how long the publishers of a stream are refused after an operator has ended
	// the stream. It applies if the operator's request does not contain for=DURATION. It is long
	// enough for the user of the encoder to notice the refusal.
	refuseEnded = time.Minute
	// maxRefuseEnded is the maximum time for which publishers may be refused, so that every refusal
	// ends at some time.
	maxRefuseEnded = 30 * 24 * time.Hour
)

// EndStream serves DELETE /api/streams/NAME. It ends a stream and refuses its publishers for some
// time.
func (o *Operator) EndStream(w http.ResponseWriter, r *http.Request) {
	name, lasts := r.PathValue("name"), refuseEnded
	text := r.URL.Query().Get("for")
	if text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil || lasts < 0 ||
			lasts > maxRefuseEnded {
			o.refusals.Refuse(access.Reader, w, r,
				refuse.New(http.StatusBadRequest,
					"bad for=%.40q: want a time such as 10m, up to %v", text, maxRefuseEnded))
			return
		}
	}
	// If there is no such stream, the name may be a typo, so the request is refused. If the request
	// contains for=DURATION, however, the operator may want to refuse publishers in advance.
	if _, here := o.streams.Stream(name); !here && text == "" {
		o.refusals.Refuse(access.Reader, w, r,
			refuse.New(http.StatusNotFound, "no stream %.200q", name))
		return
	}
	ended, err := o.streams.EndStream(name, lasts)
	if err != nil {
		o.refusals.Refuse(access.Reader, w, r, err)
		return
	}
	what := "the operator ends a stream"
	if !ended && lasts == 0 {
		what = "the operator frees a name"
	}
	o.log.Info(what, "stream", name, "was", ended, "refused for", lasts, "client", r.RemoteAddr)
	writeJSON(w, struct {
		Stream  string  `json:"stream"`
		Ended   bool    `json:"ended"`           // whether the stream existed
		Refused float64 `json:"refused_seconds"` // how long its publishers are refused
	}{name, ended, lasts.Seconds()})
}

// EndViewer serves DELETE /api/viewers/ID. It disconnects a viewer.
func (o *Operator) EndViewer(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		o.refusals.Refuse(access.Reader, w, r,
			refuse.New(http.StatusBadRequest, "bad viewer %.40q: want its number",
				r.PathValue("id")))
		return
	}
	was, ok := o.streams.EndViewer(id)
	if !ok {
		o.refusals.Refuse(access.Reader, w, r, refuse.New(http.StatusNotFound, "no viewer %d", id))
		return
	}
	o.log.Info("the operator ends a viewer", "stream", was.Stream, "viewer", was.Address, "client",
		r.RemoteAddr)
	writeJSON(w, was)
}

// maxPush limits the body of a request to AddPush, in bytes.
const maxPush = 4 << 10

// AddPush serves POST /api/pushes. It sends a stream on to another server, until the stream ends.
func (o *Operator) AddPush(w http.ResponseWriter, r *http.Request) {
	var q struct{ Stream, To string }
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPush))
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil || q.Stream == "" || q.To == "" { // the error may contain the URL
		o.refusals.Refuse(access.Reader, w, r, refuse.New(http.StatusBadRequest,
			`want {"stream": NAME, "to": URL} with up to %d bytes`, maxPush))
		return
	}
	id, err := o.pushes.Add(q.Stream, q.To)
	if err != nil {
		status := http.StatusBadRequest
		if errors.Is(err, push.ErrAbsent) {
			status = http.StatusNotFound
		}
		o.refusals.Refuse(access.Reader, w, r, refuse.New(status, "push of %.200q: %v", q.Stream, err))
		return
	}
	o.log.Info("the operator adds a push", "stream", q.Stream, "push", id, "client", r.RemoteAddr)
	writeJSON(w, struct {
		ID     uint64 `json:"id"`
		Stream string `json:"stream"`
	}{id, q.Stream})
}

// EndPush serves DELETE /api/pushes/ID.
func (o *Operator) EndPush(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		o.refusals.Refuse(access.Reader, w, r, refuse.New(http.StatusBadRequest,
			"bad push %.40q: want its number", r.PathValue("id")))
		return
	}
	was, ok := o.pushes.End(id)
	if !ok {
		o.refusals.Refuse(access.Reader, w, r, refuse.New(http.StatusNotFound, "no push %d", id))
		return
	}
	o.log.Info("the operator ends a push", "stream", was.Stream, "to", was.To, "client", r.RemoteAddr)
	writeJSON(w, was)
}
