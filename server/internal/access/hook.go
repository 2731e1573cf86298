package access

import (
	"context"
	"net/http"
	"strings"

	"github.com/millrace-io/millrace/server/internal/hook"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// HasHook reports whether there is a hook.
func (g *Gate) HasHook() bool { return g.hook != nil }

// Question creates the request that asks the operator's hook whether a client may publish or play
// the stream called name. The client is the sender of r.
func (g *Gate) Question(event hook.Event, r *http.Request, name, protocol string) *hook.Request {
	return &hook.Request{Event: event, Stream: name, Protocol: protocol, Address: r.RemoteAddr,
		Agent: r.UserAgent(), Query: r.URL.RawQuery, Token: g.Policy().requestToken(r)}
}

// Ask asks the hook whether a client may publish or play a stream. Use it for publishers, and for
// players with a permanent connection. For HLS players, use AskPlayer.
//
// Ask returns the name of the stream on this server, and the limits that the hook sets for the
// client. If there is no hook, Ask returns the requested name and no limits. The error is a
// [refuse.Refusal] or the context's error. Ask removes the port from q.Address.
func (g *Gate) Ask(ctx context.Context, q *hook.Request) (name string, terms live.Terms,
	err error) {
	q.Address = withoutPort(q.Address)
	switch {
	case g.hook == nil:
		return q.Stream, live.Terms{}, nil
	case q.Event == hook.Publish:
		return g.askPublish(ctx, q)
	}
	return g.askPlay(ctx, q)
}

func (g *Gate) askPublish(ctx context.Context, q *hook.Request) (string, live.Terms, error) {
	a, err := g.hook.Ask(ctx, q)
	if err != nil {
		return "", live.Terms{}, err
	}
	end := func(reason string, bytes int64) { g.hook.End(q, reason, bytes) }
	q.Forget()
	if q.Name, err = publicName(q.Stream, &a); err != nil {
		end(err.Error(), 0)
		return "", live.Terms{}, err
	}
	return q.Name, live.Terms{MaxViewers: a.MaxViewers, MaxTime: a.MaxTime, Push: a.Push,
		Ended: end}, nil
}

func (g *Gate) askPlay(ctx context.Context, q *hook.Request) (string, live.Terms, error) {
	p, err := g.hook.Play(ctx, q)
	if err != nil {
		return "", live.Terms{}, err
	}
	a := p.Answer()
	name, err := publicName(q.Stream, &a)
	if err != nil {
		p.End(err.Error(), 0)
		return "", live.Terms{}, err
	}
	return name, live.Terms{MaxTime: a.MaxTime, Ended: p.End}, nil
}

// publicName returns the stream name in the hook's answer. If the answer contains no name,
// publicName returns the argument name, which the client requested. If the answer's name is
// invalid, the error is a [refuse.Refusal].
func publicName(name string, answer *hook.Answer) (string, error) {
	if answer.Name == "" {
		return name, nil
	}
	if err := streamname.Check(answer.Name); err != nil {
		return "", refuse.New(http.StatusServiceUnavailable,
			"the hook that this server asks gives the stream a %s",
			strings.TrimPrefix(err.Error(), "bad stream name ")).
			For(refuse.HookFailed)
	}
	return answer.Name, nil
}

// AskRecording asks the hook whether to record the named stream. The gate must have a hook. If the
// hook allows the recording, the caller must call end when the recording ends. If the hook refuses,
// both results are nil.
func (g *Gate) AskRecording(name string) (end func(reason string, bytes int64), err error) {
	q := &hook.Request{Event: hook.Record, Stream: name, Name: name}
	_, err = g.hook.Ask(context.Background(), q)
	if refuse.CauseOf(err) == refuse.Hook {
		g.refusals.log.Info("the hook refuses a recording", "stream", name, "reason", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return func(reason string, bytes int64) { g.hook.End(q, reason, bytes) }, nil
}
