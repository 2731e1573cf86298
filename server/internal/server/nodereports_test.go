package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/cluster"
)

// A node proves that it knows the cluster's token, which counts instead of that of readers, and need not name this machine.
// A wrong proof is refused whatever else the request shows.
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
		token  string // that the node knows
		shown  string // instead of its proof
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
			s.node.admit(s.refusals, inner, gate.Protect(inner)).ServeHTTP(w, r)
			res := w.Result()
			res.Request = out
			again, _ = secret.Check(res)
		}
		if w.Code != tt.want || node != tt.isNode || marked != tt.isNode {
			t.Errorf("%q %q %s: %d, a node %v, marked %v", tt.token, tt.shown, tt.query, w.Code, node, marked)
		}
	}
	// A server that is alone takes none: a token that is not set is not the empty one.
	f := serve(t, nil)
	if res := f.Request("GET", path, "", cluster.HeaderProof+": "); res.Status != 403 || !strings.Contains(res.Body, "without --cluster") {
		t.Errorf("a server that is alone: %d %s", res.Status, res.Body)
	}
	if f.stop(); strings.Contains(f.Log.String(), token) {
		t.Error("the token is in the log")
	}
}

// The other nodes are asked once for all who want their streams, and what is wrong with one is said beside the others.
func TestReportsOfOtherNodes(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	answers := map[string]http.HandlerFunc{
		"good": func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.URL.Path != "/api/streams" {
				t.Errorf("asked for %s with %v", r.URL, r.Header)
			}
			_, _ = io.WriteString(w, `{"server": {"version": "v1"}, "streams": [{"name": "cam", "publisher": "10.0.0.9:1"}]}`)
		},
		"empty":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"streams": null}`) },
		"refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"leads": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(reportBytes+1))
			_, _ = io.WriteString(w, `{"streams": [`+strings.Repeat(`{"name": "cam"},`, reportBytes/10))
		},
		"text": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") },
		"slow": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	}
	want := map[string]string{"good": "", "empty": "", "refuses": "answers 403", "leads": "answers 302", "long": "are more than",
		"text": "cannot be read", "slow": "does not answer"}
	names, peers := make(map[string]string), []string{"http://127.0.0.1:1"}
	for name, h := range answers {
		var secret *cluster.Secret
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if secret.Admit(w.Header(), r) == cluster.Challenged {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h(w, r)
		}))
		secret = cluster.NewSecret("t", "http://"+s.Listener.Addr().String())
		s.Start()
		t.Cleanup(s.Close)
		names[s.URL] = name
		peers = append(peers, s.URL)
	}
	slices.Sort(peers)
	objects := cluster.NewObjects(1<<20, 2*reportBytes, cluster.NewSecret("t", "http://10.0.0.1:8080"), nil)
	defer objects.Close()
	n := &nodeReports{peers: func() []string { return peers }, from: func(node, path string) cluster.Fetch {
		return objects.From(node, path, 0, false)
	}, proven: func(string) bool { return false }}

	var asking sync.WaitGroup
	lists := make([][]nodeReport, 20)
	for i := range lists {
		asking.Go(func() { lists[i] = n.get(context.Background()) })
	}
	asking.Wait()
	for _, r := range lists[0] {
		name := names[r.Node]
		says, streams := want[name], 0
		if name == "" {
			says = "does not answer"
		}
		if name == "good" {
			streams = 1
		}
		if (r.Error == "") != (says == "") || !strings.Contains(r.Error, says) || r.Streams == nil || len(r.Streams) != streams {
			t.Errorf("%s: %q, %v", name, r.Error, r.Streams)
		}
	}
	if !slices.IsSortedFunc(lists[0], func(a, b nodeReport) int { return strings.Compare(a.Node, b.Node) }) || len(lists[0]) != len(peers) {
		t.Errorf("%v", lists[0])
	}
	if got := asked.Load(); got >= int64(len(lists)) {
		t.Errorf("a node was asked %d times for %d", got, len(lists))
	}

	// What is taken out of an answer stays in the next one.
	report := apiReport{Nodes: lists[0]}
	report.hideAddresses()
	if hidden, kept := fmt.Sprint(report), fmt.Sprint(lists[0]); strings.Contains(hidden, "10.0.0.9") || !strings.Contains(kept, "10.0.0.9") {
		t.Errorf("hidden: %s\nkept: %s", hidden, kept)
	}
}
