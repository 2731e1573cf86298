package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
)

// A node proves that it knows the cluster's token. The proof replaces the readers' token, and the
// node need not use a local host name. A wrong proof is refused, whatever else the request
// contains.
func TestRequestsOfNodes(t *testing.T) {
	const token, path, self = "s3cret", "/api/streams", "http://10.0.0.1:8080"
	var node, marked bool
	s := &Server{cfg: Config{Cluster: "redis://127.0.0.1:1", ClusterToken: token, Advertise: self},
		log:      slog.New(slog.DiscardHandler),
		refusals: access.NewRefusals(slog.New(slog.DiscardHandler), new(access.Origins), false),
		node:     &clusterNode{self: self, secret: cluster.NewSecret(token, self)}}
	gate := access.NewGate(nil, s.refusals)
	gate.SetPolicy(&access.Policy{Read: "reader", Loopback: true})
	inner := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var asking string
		asking, node = access.NodeOf(r)
		marked = asking == "http://10.0.0.2:8080"
	})
	for _, tt := range []struct {
		token  string // the node's token
		shown  string // sent instead of its proof
		query  string
		want   int
		isNode bool
	}{
		{token, "", "", 200, true},
		{"wrong", "", "?token=reader", 403, false},
		{"", token, "?token=reader", 403, false},
		{"", " ", "?token=reader", 403, false},
		{"", "", "?token=reader", 200, false},
		{"", "", "", 401, false},
	} {
		node, marked = false, false
		secret := cluster.NewSecret(tt.token, "http://10.0.0.2:8080")
		var w *httptest.ResponseRecorder
		for again := true; again; {
			out, _ := http.NewRequest("GET", self+path+tt.query, nil)
			secret.Sign(out, 0)
			r := httptest.NewRequest("GET", path+tt.query, nil)
			if r.Header = out.Header; tt.shown != "" {
				r.Header.Set(cluster.HeaderProof, tt.shown)
			} else if tt.token == "" {
				r.Header.Del(cluster.HeaderProof)
			}
			w = httptest.NewRecorder()
			s.node.admitNodes(s.refusals, inner, gate.Protect(inner)).ServeHTTP(w, r)
			res := w.Result()
			res.Request = out
			again, _ = secret.Check(res)
		}
		if w.Code != tt.want || node != tt.isNode || marked != tt.isNode {
			t.Errorf("%q %q %s: %d, a node %v, marked %v", tt.token, tt.shown, tt.query, w.Code,
				node, marked)
		}
	}
	// A single server accepts no nodes: a missing token does not mean an empty token.
	f := serve(t, nil)
	if res := f.Request("GET", path, "", cluster.HeaderProof+": "); res.Status != 403 ||
		!strings.Contains(res.Body, "without --cluster") {
		t.Errorf("a server that is alone: %d %s", res.Status, res.Body)
	}
	if f.stop(); strings.Contains(f.Log.String(), token) {
		t.Error("the token is in the log")
	}
}
