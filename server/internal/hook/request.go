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

// Version is the version of the JSON that the hook receives.
const Version = 1

// An Event says what a Request is about.
type Event string

const (
	Publish    Event = "publish"
	PlayBegin  Event = "play"
	Record     Event = "record"
	PublishEnd Event = "publish_end"
	PlayEnd    Event = "play_end"
	RecordEnd  Event = "record_end"
)

var events = []Event{Publish, PlayBegin, Record, PublishEnd, PlayEnd, RecordEnd}

func (e Event) end() Event { return e + "_end" }

// HLS is the protocol of players that have no permanent connection.
const HLS = "hls"

// A Request is the JSON that the hook receives.
type Request struct {
	Version int   `json:"version"`
	Event   Event `json:"event"`
	// ID identifies a publisher, player or recording. The first request and the end event have the
	// same ID.
	ID     string    `json:"id"`
	Time   time.Time `json:"time"`           // time of the event
	Node   string    `json:"node,omitempty"` // address of this node; empty without a cluster
	Stream string    `json:"stream"`         // the name that the client requested
	// Name is the name of the stream on the server. If the hook has renamed the stream, it differs
	// from Stream, the name that the client requested. Name is set only in end events, and in
	// requests about recordings.
	Name     string `json:"name,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	Address  string `json:"address,omitempty"`    // the client's IP address
	Agent    string `json:"user_agent,omitempty"` // the client's User-Agent
	Query    string `json:"query,omitempty"`      // as the client sent it
	// Token is the token that the client sent in a header or in the query.
	Token string `json:"token,omitempty"`

	// Only set in end events.
	Reason  string  `json:"reason,omitempty"`
	Bytes   int64   `json:"bytes,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// maxShown limits the total length of a client's query, token and user agent, in bytes. Signed
// tokens have up to a thousand bytes.
const maxShown = 4 << 10

// prepare sets the fields Version, Node, Time and ID. It must not be called for an end event.
//
// If the client's query, token and user agent together have more than maxShown bytes, prepare
// returns a [refuse.Refusal].
func (q *Request) prepare(node string) error {
	if n := len(q.Query) + len(q.Token) + len(q.Agent); n > maxShown {
		return refuse.New(http.StatusRequestURITooLong,
			"query, token and user agent have %d bytes, and %d may be shown", n,
			maxShown).For(refuse.Hook)
	}
	q.Version, q.Node, q.Time, q.ID = Version, node, time.Now().UTC(), rand.Text()
	return nil
}

// endEvent creates the end event for the request q. The argument bytes is the number of bytes that
// were transferred. The end event does not contain the client's credentials.
func (q *Request) endEvent(reason string, bytes int64) Request {
	e := *q
	e.Forget()
	e.Event, e.Time = q.Event.end(), time.Now().UTC()
	e.Reason, e.Bytes, e.Seconds = reason, bytes, math.Round(1e3*e.Time.Sub(q.Time).Seconds())/1e3
	return e
}

// Forget saves memory, because a client may stay connected for days. It clears the fields of q that
// the end event does not need. It also copies the remaining strings, because the original strings
// keep the whole HTTP request header in memory.
func (q *Request) Forget() {
	q.Agent, q.Query, q.Token = "", "", ""
	q.Stream, q.Address = strings.Clone(q.Stream), strings.Clone(q.Address)
}

// A playKey is a hash of everything in a request that the hook can use to distinguish players.
type playKey [sha256.Size]byte

func (q *Request) key() playKey {
	text, err := json.Marshal([]string{q.Stream, q.Protocol, q.Address, q.Agent, q.Query, q.Token})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return sha256.Sum256(text)
}

// An Answer says what the hook has allowed.
type Answer struct {
	Name       string        // public name of the stream; "" means the requested name
	MaxViewers int           // limit for a published stream; 0 means no limit
	MaxTime    time.Duration // limit for publishing or playing; 0 means no limit
	Keep       time.Duration // how long the answer is used for players with the same playKey
	Push       []string      // URLs to which a published stream is sent; they may contain keys
}

const (
	// maxAnswer is the maximum length of the body of the hook's response, in bytes. A useful body
	// has a few hundred bytes.
	maxAnswer = 16 << 10
	// maxReason is the maximum length, in characters, of the hook's reason for a refusal. The
	// reason is sent to the client. A longer reason is cut.
	maxReason = 200

	// keepDefault is how long the hook's response is used if the response does not contain
	// cache_seconds. The hook can remove a player only after this time, so it is short. With this
	// time, only about one in five requests of an HLS player leads to a request to the hook.
	keepDefault = 10 * time.Second
	maxKeep     = time.Hour
	// maxPush is the maximum number of URLs to which a stream is sent.
	maxPush = 16
	// maxSeconds is the maximum value of max_seconds, a time limit in the hook's response. It is
	// one year.
	maxSeconds = 366 * 24 * 3600
)

type answerBody struct {
	Allow      *bool    `json:"allow"`
	Reason     string   `json:"reason"`
	Name       string   `json:"name"`
	MaxViewers *int     `json:"max_viewers"`
	MaxSeconds *float64 `json:"max_seconds"`
	Cache      *float64 `json:"cache_seconds"`
	Push       []string `json:"push"`
}

// parseAnswer parses the hook's response to a request about event. If the hook refuses the client,
// the error is a [refuse.Refusal]. Any other error means that the response is invalid.
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
		if err != nil { // usually the error page of a framework
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
		a, err = a.withLimits(event, got)
		if err == nil {
			err = refuse.New(http.StatusForbidden, "%s", refusalReason(got.Reason)).For(refuse.Hook)
		}
		return a, err
	}
	a.Name = got.Name
	return a.withLimits(event, got)
}

// decodeAnswer parses the JSON of an answer. It returns an error for an unknown field, because a
// misspelled limit would otherwise be ignored.
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

// withLimits adds the limits in got, the hook's response, to an Answer, and returns the new Answer.
// If a limit is invalid, or is not allowed in a response to this event, withLimits returns an
// error.
func (a Answer) withLimits(event Event, got answerBody) (Answer, error) {
	for _, f := range []struct {
		name  string
		given bool
		of    []Event
	}{
		{"name", got.Name != "", []Event{Publish, PlayBegin}},
		{"max_viewers", got.MaxViewers != nil, []Event{Publish}},
		{"max_seconds", got.MaxSeconds != nil, []Event{Publish, PlayBegin}},
		{"cache_seconds", got.Cache != nil, []Event{PlayBegin}},
		{"push", got.Push != nil, []Event{Publish}},
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
		if a.MaxTime = seconds(*n); !(*n <= maxSeconds) || a.MaxTime <= 0 { // 0 would mean no limit
			return a, fmt.Errorf("max_seconds is %g, want at least 1e-9 and at most %d", *n,
				maxSeconds)
		}
	}
	if n := len(got.Push); n > maxPush {
		return a, fmt.Errorf("push has %d URLs, want at most %d", n, maxPush)
	}
	a.Push = got.Push
	if n := got.Cache; n != nil {
		if !(*n >= 0 && *n <= maxKeep.Seconds()) {
			return a, fmt.Errorf("cache_seconds is %g, want 0 to %g", *n, maxKeep.Seconds())
		}
		a.Keep = seconds(*n)
	}
	return a, nil
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// refusalReason converts the hook's reason to one line for the client.
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
