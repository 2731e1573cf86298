package hook

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/server/internal/refuse"
)

// Version is that of the format of requests.
const Version = 1

// An Event is the kind of a request.
type Event string

const (
	Publish    Event = "publish"
	PlayBegin  Event = "play"
	Record     Event = "record"
	PublishEnd Event = "publish_end"
	PlayEnd    Event = "play_end"
	RecordEnd  Event = "record_end"
)

// events are all of them.
var events = []Event{Publish, PlayBegin, Record, PublishEnd, PlayEnd, RecordEnd}

// end returns the event for the end of e.
func (e Event) end() Event { return e + "_end" }

// HLS is the protocol of players without a connection.
const HLS = "hls"

// A Request is the JSON that the hook receives.
type Request struct {
	Version int   `json:"version"`
	Event   Event `json:"event"`
	// The same in the event that begins and in the one that ends.
	ID       string    `json:"id"`
	Time     time.Time `json:"time"`           // of the event
	Node     string    `json:"node,omitempty"` // the address of the node of a cluster
	Stream   string    `json:"stream"`         // the name as the client says it
	Name     string    `json:"name,omitempty"` // the public name; in ends, and of recordings
	Protocol string    `json:"protocol,omitempty"`
	Address  string    `json:"address,omitempty"`    // of the client, without a port
	Agent    string    `json:"user_agent,omitempty"` // the client's program
	Query    string    `json:"query,omitempty"`      // as the client sent it
	// That the client shows, in a header or in the query.
	Token string `json:"token,omitempty"`

	// Of ends.
	Reason  string  `json:"reason,omitempty"`
	Bytes   int64   `json:"bytes,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// maxShown limits a client's query, token and user agent, in bytes: signed tokens have up to a
// thousand.
const maxShown = 4 << 10

// prepare completes a request that begins something.
func (q *Request) prepare(node string) error {
	if n := len(q.Query) + len(q.Token) + len(q.Agent); n > maxShown {
		return refuse.New(http.StatusRequestURITooLong,
			"query, token and user agent have %d bytes, and %d may be shown", n,
			maxShown).For(refuse.Hook)
	}
	q.Version, q.Node, q.Time, q.ID = Version, node, time.Now().UTC(), rand.Text()
	return nil
}

// ended returns the request for the end of q, without the client's credentials.
func (q *Request) ended(reason string, bytes int64) Request {
	e := *q
	e.Forget()
	e.Event, e.Time = q.Event.end(), time.Now().UTC()
	e.Reason, e.Bytes, e.Seconds = reason, bytes, math.Round(1e3*e.Time.Sub(q.Time).Seconds())/1e3
	return e
}

// Forget removes the fields of q that its end does not need, because the client may stay for days.
// The other texts are copied, because they are parts of the request's head.
func (q *Request) Forget() {
	q.Agent, q.Query, q.Token = "", "", ""
	q.Stream, q.Address = strings.Clone(q.Stream), strings.Clone(q.Address)
}

// A playKey stands for all that the hook can tell players by.
type playKey [sha256.Size]byte

func (q *Request) key() playKey {
	text, err := json.Marshal([]string{q.Stream, q.Protocol, q.Address, q.Agent, q.Query, q.Token})
	if err != nil {
		panic(err) // texts
	}
	return sha256.Sum256(text)
}

// An Answer is what the hook allowed.
type Answer struct {
	Name       string        // the public name of the stream; "": as the client says
	MaxViewers int           // limit of the published stream; 0: none
	MaxTime    time.Duration // of publishing or playing; 0: no limit
	Keep       time.Duration // how long the answer counts for players that show the same
}

const (
	// maxAnswer bounds the body of an answer, in bytes. The longest useful one has a few hundred.
	maxAnswer = 16 << 10
	// maxReason limits the part that the client gets.
	maxReason = 200

	// keepDefault is short enough to remove a player soon, and makes the hook's share one in five
	// of an HLS player's requests.
	keepDefault = 10 * time.Second
	maxKeep     = time.Hour
	// maxSeconds is a year.
	maxSeconds = 366 * 24 * 3600
)

// answerBody is the JSON of an answer.
type answerBody struct {
	Allow      *bool    `json:"allow"`
	Reason     string   `json:"reason"`
	Name       string   `json:"name"`
	MaxViewers *int     `json:"max_viewers"`
	MaxSeconds *float64 `json:"max_seconds"`
	Cache      *float64 `json:"cache_seconds"`
}

// parseAnswer parses the answer to an event. An error is a [refuse.Refusal], or says why the answer
// is invalid.
func parseAnswer(event Event, status int, body []byte) (Answer, error) {
	ok := status >= 200 && status < 300
	a := Answer{Keep: keepDefault}
	switch {
	case !ok && status != http.StatusUnauthorized && status != http.StatusForbidden &&
		status != http.StatusNotFound:
		return a, fmt.Errorf("it answers %d, want 2xx, 401, 403 or 404", status)
	case len(body) > maxAnswer:
		return a, fmt.Errorf("its answer is longer than %d bytes", maxAnswer)
	case ok && len(bytes.TrimSpace(body)) == 0:
		return a, nil
	}
	got, err := decodeAnswer(body)
	if !ok {
		if err != nil { // a page of a framework, as a rule
			got.Reason = ""
		}
		return a, refuse.New(status, "%s", refusalReason(got.Reason)).For(refuse.Hook)
	}
	switch {
	case err != nil:
		return a, err
	case got.Allow == nil:
		return a, errors.New(`its answer has no "allow"`)
	case !*got.Allow:
		a, err = a.limited(event, got)
		if err == nil {
			err = refuse.New(http.StatusForbidden, "%s", refusalReason(got.Reason)).For(refuse.Hook)
		}
		return a, err
	}
	a.Name = got.Name
	return a.limited(event, got)
}

// decodeAnswer refuses unknown fields: a limit with a wrong name would be none.
func decodeAnswer(body []byte) (got answerBody, err error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&got); err != nil {
		return got, fmt.Errorf("its answer is invalid: %.*s", maxReason,
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err = dec.Token(); err != io.EOF {
		return got, errors.New("there is something behind the JSON of its answer")
	}
	return got, nil
}

// limited returns a with the limits of an answer to an event.
func (a Answer) limited(event Event, got answerBody) (Answer, error) {
	for _, f := range []struct {
		name  string
		given bool
		of    []Event
	}{
		{"name", got.Name != "", []Event{Publish, PlayBegin}},
		{"max_viewers", got.MaxViewers != nil, []Event{Publish}},
		{"max_seconds", got.MaxSeconds != nil, []Event{Publish, PlayBegin}},
		{"cache_seconds", got.Cache != nil, []Event{PlayBegin}},
	} {
		if f.given && !slices.Contains(f.of, event) {
			return a, fmt.Errorf("its answer to %s has %q", event, f.name)
		}
	}
	if n := got.MaxViewers; n != nil {
		if *n < 1 {
			return a, fmt.Errorf("max_viewers is %d, want at least 1", *n)
		}
		a.MaxViewers = *n
	}
	if n := got.MaxSeconds; n != nil {
		if a.MaxTime = seconds(*n); !(*n <= maxSeconds) || a.MaxTime <= 0 { // 0 would be no limit
			return a, fmt.Errorf("max_seconds is %g, want at least 1e-9 and at most %d", *n,
				maxSeconds)
		}
	}
	if n := got.Cache; n != nil {
		if !(*n >= 0 && *n <= maxKeep.Seconds()) {
			return a, fmt.Errorf("cache_seconds is %g, want 0 to %g", *n, maxKeep.Seconds())
		}
		a.Keep = seconds(*n)
	}
	return a, nil
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// refusalReason returns the reason for the client: one line.
func refusalReason(reason string) string {
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(reason, "?"))
	if line = strings.TrimSpace(line); line == "" {
		return "the hook of this server refuses it"
	}
	return fmt.Sprintf("%.*s", maxReason, line)
}
