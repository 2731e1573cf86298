package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/relay"
	"github.com/millrace-io/millrace/server/internal/streamname"
	"github.com/prometheus/client_golang/prometheus"
)

// openHook returns what asks the hook, or nil if the configuration names none. The call that ends its life is its Close.
func openHook(cfg *Config) (*hook.Client, error) {
	if cfg.Hook == "" {
		return nil, nil
	}
	return hook.New(hook.Config{URL: cfg.Hook, Timeout: cfg.HookTimeout, Open: cfg.HookOpen, Node: cfg.self(), Log: cfg.Log})
}

// publicName returns the name that the hook gives to a stream, and a refusal if that is none.
func publicName(asked string, a *hook.Answer) (string, error) {
	if a.Name == "" {
		return asked, nil
	}
	if err := streamname.Check(a.Name); err != nil {
		return "", refuse.New(http.StatusServiceUnavailable,
			"the hook that this server asks gives the stream a %s", strings.TrimPrefix(err.Error(), "bad stream name ")).
			For(refuse.HookFailed)
	}
	return a.Name, nil
}

// askPublish asks the hook about a publisher. It returns the public name of its stream and its terms.
func (s *access) askPublish(ctx context.Context, q *hook.Request) (string, relay.Terms, error) {
	a, err := s.hook.Ask(ctx, q)
	if err != nil {
		return "", relay.Terms{}, err
	}
	end := func(reason string, bytes int64) { s.hook.End(q, reason, bytes) }
	q.Forget()
	if q.Name, err = publicName(q.Stream, &a); err != nil {
		end(err.Error(), 0)
		return "", relay.Terms{}, err
	}
	return q.Name, relay.Terms{MaxViewers: a.MaxViewers, MaxTime: a.MaxTime, Ended: end}, nil
}

// askPlay asks the hook about a viewer with a connection. It returns the public name of the stream and the viewer's
// terms.
func (s *access) askPlay(ctx context.Context, q *hook.Request) (string, relay.Terms, error) {
	p, err := s.hook.Play(ctx, q)
	if err != nil {
		return "", relay.Terms{}, err
	}
	a := p.Answer()
	name, err := publicName(q.Stream, &a)
	if err != nil {
		p.End(err.Error(), 0)
		return "", relay.Terms{}, err
	}
	return name, relay.Terms{MaxTime: a.MaxTime, Ended: p.End}, nil
}

// hookRequest returns what the hook gets of a request.
func (s *access) hookRequest(event hook.Event, r *http.Request, name, protocol string) *hook.Request {
	return &hook.Request{Event: event, Stream: name, Protocol: protocol, Address: withoutPort(r.RemoteAddr),
		Agent: r.UserAgent(), Query: r.URL.RawQuery, Token: s.auth.Load().shownToken(r)}
}

// A hookPlay is a player of HLS that the hook allows. A nil hookPlay is one that the hook is not asked about.
type hookPlay struct {
	*hook.Play
	query string // what each address in a playlist gets
}

type hookPlayKey struct{}

func hookPlayOf(r *http.Request) *hookPlay {
	p, _ := r.Context().Value(hookPlayKey{}).(*hookPlay)
	return p
}

// served notes bytes that the player gets.
func (p *hookPlay) served(n int) {
	if p != nil {
		p.Served(n)
	}
}

// admitHLS asks the hook about a player of HLS, unless its answer to an earlier request counts. It returns the request to
// serve, and the public name of the stream.
func (s *access) admitHLS(r *http.Request, name string) (*http.Request, string, error) {
	if s.hook == nil || fromNode(r) {
		return r, name, nil
	}
	q := s.hookRequest(hook.PlayBegin, r, name, hook.HLS)
	q.Query = ownQuery(r.URL.RawQuery)
	p := &hookPlay{query: q.Query}
	var err error
	if p.Play, err = s.hook.Play(r.Context(), q); err != nil {
		return r, "", err
	}
	a := p.Answer()
	if name, err = publicName(name, &a); err != nil {
		return r, "", err
	}
	return r.WithContext(context.WithValue(r.Context(), hookPlayKey{}, p)), name, nil
}

// ownQuery returns a query as the client sent it, without the parameters that players of HLS add. They
// are in one order, so that all requests of a player have the same ones, and fit into a playlist.
func ownQuery(query string) string {
	own := strings.Split(query, "&")
	own = slices.DeleteFunc(own, func(parameter string) bool {
		return parameter == "" || strings.HasPrefix(parameter, "_HLS_")
	})
	slices.SortStableFunc(own, func(a, b string) int {
		key, _, _ := strings.Cut(a, "=")
		other, _, _ := strings.Cut(b, "=")
		return strings.Compare(key, other)
	})
	return notInPlaylists.Replace(strings.Join(own, "&"))
}

// notInPlaylists escapes what a client may send in a query and what ends an address in a playlist.
var notInPlaylists = strings.NewReplacer(" ", "%20", `"`, "%22", "#", "%23")

// admitRecording returns what asks the hook whether a stream is recorded, or nil.
func (s *access) admitRecording() func(name string) (end func(reason string, bytes int64), err error) {
	if s.hook == nil {
		return nil
	}
	return func(name string) (func(string, int64), error) {
		q := &hook.Request{Event: hook.Record, Stream: name, Name: name}
		_, err := s.hook.Ask(context.Background(), q)
		if refuse.CauseOf(err) == refuse.Hook {
			s.log.Info("the hook refuses a recording", "stream", name, "reason", err)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return func(reason string, bytes int64) { s.hook.End(q, reason, bytes) }, nil
	}
}

// collectHook reports the metrics of the hook.
func (s *access) collectHook(c scrape) {
	if s.hook == nil {
		return
	}
	st := s.hook.Stats()
	for of, n := range st.Requests {
		c.counterOf("hook_requests_total", "Questions to the hook and ends that it was told, by event and result.", n,
			"event", string(of.Event), "result", of.Result)
	}
	c.counter("hook_attempts_total", "POSTs to the hook.", st.Attempts)
	c.send(prometheus.CounterValue, "hook_seconds_total", "How long these took, added up.", st.Spent.Seconds())
	c.counter("hook_cache_hits_total", "Players for which an answer for another request counted.", st.Hits)
	c.counter("hook_ends_dropped_total", "Ends that the hook was not told.", st.Dropped)
	c.gauge("hook_waiting", "Questions that wait for the hook.", int64(st.Waiting))
	c.gauge("hook_ends_queued", "Ends that wait for the hook.", int64(st.Queued))
	c.gauge("hook_plays", "Answers about players that are kept.", int64(st.Plays))
}
