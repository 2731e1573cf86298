package ops

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace-io/millrace/server/internal/live/cluster"
)

// The other nodes are asked once for all requests. The error of a node is listed with the other
// nodes.
func TestReportsOfOtherNodes(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	answers := map[string]http.HandlerFunc{
		"good": func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.URL.Path != "/api/streams" {
				t.Errorf("asked for %s with %v", r.URL, r.Header)
			}
			_, _ = io.WriteString(w,
				`{"server": {"version": "v1"}, "streams": [{"name": "cam", "publisher": "10.0.0.9:1"}]}`)
		},
		"empty": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"streams": null}`)
		},
		"refuses": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		},
		"leads": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		},
		"long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(reportBytes+1))
			_, _ = io.WriteString(w, `{"streams": [`+strings.Repeat(`{"name": "cam"},`,
				reportBytes/10))
		},
		"text": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") },
		"slow": func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	}
	want := map[string]string{"good": "", "empty": "", "refuses": "answers 403",
		"leads": "answers 302",
		"long":  "are more than", "text": "cannot be read", "slow": "does not answer"}
	names, peers := make(map[string]string), []string{"http://127.0.0.1:1"}
	for name, h := range answers {
		var secret *cluster.Secret
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
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
	objects := cluster.NewObjects(1<<20, 2*reportBytes,
		cluster.NewSecret("t", "http://10.0.0.1:8080"), nil, nil)
	defer objects.Close()
	n := &nodes{peers: func() []string { return peers },
		from: func(node, path string) cluster.Fetch {
			return objects.From(node, path, 0, false)
		}, proven: func(string) bool { return false }}

	var asking sync.WaitGroup
	lists := make([][]NodeReport, 20)
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
		if (r.Error == "") != (says == "") || !strings.Contains(r.Error, says) ||
			r.Streams == nil || len(r.Streams) != streams {
			t.Errorf("%s: error %q, streams %v", name, r.Error, r.Streams)
		}
	}
	byNode := func(a, b NodeReport) int { return strings.Compare(a.Node, b.Node) }
	if !slices.IsSortedFunc(lists[0], byNode) || len(lists[0]) != len(peers) {
		t.Errorf("%v, want all nodes in order", lists[0])
	}
	if got := asked.Load(); got >= int64(len(lists)) {
		t.Errorf("a node was asked %d times for %d", got, len(lists))
	}

	// Fields that are removed from one report are still in the next one.
	report := Report{Nodes: lists[0]}
	report.hideAddresses()
	hidden, kept := fmt.Sprint(report), fmt.Sprint(lists[0])
	if strings.Contains(hidden, "10.0.0.9") || !strings.Contains(kept, "10.0.0.9") {
		t.Errorf("hidden: %s\nkept: %s", hidden, kept)
	}
}
