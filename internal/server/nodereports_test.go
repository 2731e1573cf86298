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

	"github.com/millrace-io/millrace/internal/cluster"
)

// A node shows the cluster's token instead of that of readers, and need not name this machine. A wrong one is refused
// whatever else the request shows.
func TestRequestsOfNodes(t *testing.T) {
	const token, path = "s3cret", "/api/streams"
	var node, marked bool
	s := &Server{cfg: Config{Cluster: "redis://127.0.0.1:1", ClusterToken: token}, log: slog.New(slog.DiscardHandler),
		refusals: newRefusals(slog.New(slog.DiscardHandler))}
	s.auth.Store(&auth{read: "reader", loopback: true})
	inner := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		node, marked = fromNode(r), askingNode(r) == "http://10.0.0.2:8080"
	})
	for _, tt := range []struct {
		shown  []string
		query  string
		want   int
		isNode bool
	}{
		{[]string{token}, "", 200, true},
		{[]string{"wrong"}, "?token=reader", 403, false},
		{[]string{""}, "?token=reader", 403, false},
		{[]string{token, token}, "", 403, false},
		{nil, "?token=reader", 200, false},
		{nil, "", 401, false},
	} {
		node, marked = false, false
		r := httptest.NewRequest("GET", path+tt.query, nil)
		if tt.shown != nil {
			r.Header[cluster.HeaderToken] = tt.shown
		}
		r.Header.Set(cluster.HeaderNode, "http://10.0.0.2:8080")
		w := httptest.NewRecorder()
		s.admitNodes(inner, s.protect(s.auth.Load, inner)).ServeHTTP(w, r)
		if w.Code != tt.want || node != tt.isNode || marked != tt.isNode {
			t.Errorf("%q %s: %d, a node %v, marked %v", tt.shown, tt.query, w.Code, node, marked)
		}
	}
	// A server that is alone takes none: a token that is not set is not the empty one.
	f := serve(t, nil)
	if res := f.Request("GET", path, "", cluster.HeaderToken+": "); res.Status != 403 || !strings.Contains(res.Body, "without --cluster") {
		t.Errorf("a server that is alone: %d %s", res.Status, res.Body)
	}
	if f.stop(); strings.Contains(f.Log.String(), token) {
		t.Error("the token is in the log")
	}
}

// The other nodes are asked once for all who want their streams, and what is wrong with one is said beside the others.
func TestReportsOfOtherNodes(t *testing.T) {
	var asked atomic.Int64
	answers := map[string]http.HandlerFunc{
		"good": func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.URL.Path != "/api/streams" || r.Header.Get(cluster.HeaderToken) != "t" {
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
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		names[s.URL] = name
		peers = append(peers, s.URL)
	}
	slices.Sort(peers)
	objects := cluster.NewObjects(1<<20, 2*reportBytes, http.Header{cluster.HeaderToken: {"t"}}, nil)
	defer objects.Close()
	n := &nodeReports{peers: func() []string { return peers }, from: objects.From}

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
