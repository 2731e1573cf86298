package access

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/millrace-io/millrace/server/internal/hook"
)

// Protect uses the gate's current policy for each request.
func TestGateAppliesANewPolicy(t *testing.T) {
	g := NewGate(nil, NewRefusals(slog.New(slog.DiscardHandler), new(Origins), false))
	h := g.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, tt := range []struct {
		policy       Policy
		method, path string
		want         int
	}{
		{Policy{Read: "r"}, "GET", "/?token=r", 200},
		{Policy{Read: "r"}, "GET", "/", 401},
		{Policy{Read: "r"}, "OPTIONS", "/", 200},
		{Policy{Read: "s"}, "GET", "/?token=r", 403},
		{Policy{}, "HEAD", "/", 200},
	} {
		g.SetPolicy(&tt.policy)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil)); w.Code != tt.want {
			t.Errorf("%s %s with %+v: %d, want %d", tt.method, tt.path, tt.policy, w.Code, tt.want)
		}
	}
}

// Without a hook, a client gets the stream that it requests.
func TestGateWithoutAHook(t *testing.T) {
	g := NewGate(nil, NewRefusals(slog.New(slog.DiscardHandler), new(Origins), false))
	g.SetPolicy(&Policy{})
	r := httptest.NewRequest("GET", "/live/cam/index.m3u8?a=b", nil)
	name, terms, err := g.Ask(t.Context(), g.Question(hook.Publish, r, "cam", "http"))
	if name != "cam" || terms.MaxTime != 0 || terms.Ended != nil || err != nil {
		t.Errorf("a publisher: %q, %+v, %v, want no limit and no error", name, terms, err)
	}
	if same, name, err := g.AskPlayer(r, "cam"); same != r || name != "cam" || err != nil {
		t.Errorf("a player: %q, %v, want the same request and no error", name, err)
	}
	if q := g.AddedQuery(r); q != "" || !g.IsPublic(r) {
		t.Errorf("added %q, public %v", q, g.IsPublic(r))
	}
}
