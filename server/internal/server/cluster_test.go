package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/media/rtmp"
	"github.com/millrace-io/millrace/server/internal/demo"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
	"github.com/millrace-io/millrace/server/internal/ops"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

const clusterToken = "t0ken"

// serveNode starts a node with RTMP in the cluster of the given prefix. change may be nil.
func serveNode(t *testing.T, redis, prefix string, change func(*Config)) *rtmpFixture {
	t.Helper()
	return serveRTMPOn(t, func(ln net.Listener, c *Config) {
		c.Cluster, c.ClusterPrefix, c.ClusterToken = redis, prefix, clusterToken
		c.ClusterLease = 2 * time.Second
		c.Advertise = "http://" + ln.Addr().String()
		if change != nil {
			change(c)
		}
	})
}

// serveCluster starts n nodes, each of which knows the others.
func serveCluster(t *testing.T, n int, change func(*Config)) []*rtmpFixture {
	t.Helper()
	redis := "redis://" + redistest.Shared(t).Addr()
	prefix := fmt.Sprintf("%s-%d:", t.Name(), time.Now().UnixNano())
	nodes := make([]*rtmpFixture, n)
	for i := range nodes {
		nodes[i] = serveNode(t, redis, prefix, change)
	}
	for _, f := range nodes {
		eventually(t, "all nodes", func() bool { return len(f.node.Peers()) == n-1 })
	}
	return nodes
}

// told returns the node's report at /api/streams.
func (f *fixture) told(t *testing.T) (r ops.Report) {
	t.Helper()
	res := f.Get("/api/streams")
	if err := json.Unmarshal([]byte(res.Body), &r); err != nil || res.Status != 200 {
		t.Fatalf("%d, %v, want 200 and JSON, not %s", res.Status, err, res.Body)
	}
	return r
}

// self returns the address of the node.
func (f *rtmpFixture) self() string { return f.cfg.self() }

// where returns the nodes at which a stream is published, and the nodes that pull it from there.
func where(t *testing.T, nodes []*rtmpFixture, name string) (published, pulled []*rtmpFixture) {
	t.Helper()
	for _, f := range nodes {
		for _, s := range f.told(t).Streams {
			switch {
			case s.Name != name || s.Epoch == 0:
			case s.Owner == "":
				published = append(published, f)
			default:
				pulled = append(pulled, f)
			}
		}
	}
	return published, pulled
}

// A stream that is published at one node can be watched at the others, over HTTP and RTMP. Each
// node reports where it is.
func TestStreamIsServedAtAllNodes(t *testing.T) {
	t.Parallel()
	nodes := serveCluster(t, 3, func(c *Config) {
		c.ReadToken, c.PublishToken = "reader", "writer"
	})
	p := nodes[0].client("live")
	if s := p.Publish("cam?token=writer"); s.Level != "status" {
		t.Fatalf("publishing was refused: %+v", s)
	}
	sample := sampleTags()
	if err := p.SendTags(sample...); err != nil {
		t.Fatal(err)
	}
	for _, f := range nodes[1:] {
		w := f.Watcher("/live/cam.flv?token=reader", 0)
		if head := w.Next(3); string(head) != "FLV" {
			t.Errorf("%s sends %q, want FLV", f.self(), head)
		}
	}
	viewer := nodes[1].client("live")
	viewer.Play("cam?token=reader")
	viewer.NextTag()

	read := func(f *rtmpFixture) (r ops.Report) {
		res := f.Get("/api/streams?token=reader")
		if err := json.Unmarshal([]byte(res.Body), &r); err != nil {
			t.Fatalf("%v in the report %s", err, res.Body)
		}
		return r
	}
	for _, f := range nodes {
		eventually(t, "where the stream is", func() bool {
			r := read(f)
			reports := append(r.Nodes, ops.NodeReport{Node: r.Server.Node, Streams: r.Streams})
			for _, each := range reports {
				if len(each.Streams) != 1 || each.Streams[0].Name != "cam" ||
					each.Streams[0].Epoch == 0 {
					return false
				}
				s := each.Streams[0]
				if each.Node == nodes[0].self() {
					if s.Owner != "" || len(s.Edges) != 2 ||
						!slices.Contains(s.Edges, nodes[1].self()) {
						return false
					}
				} else if s.Owner != nodes[0].self() {
					return false
				}
			}
			return len(reports) == 3
		})
	}
	for name, want := range map[string]func(owner, edge string) bool{
		"millrace_cluster_reachable": func(owner, edge string) bool {
			return owner == "1" && edge == "1"
		},
		"millrace_cluster_owned": func(owner, edge string) bool {
			return owner == "1" && edge == "0"
		},
		"millrace_cluster_pulled": func(owner, edge string) bool {
			return owner == "0" && edge == "1"
		},
		"millrace_cluster_claims_total": func(owner, edge string) bool {
			return owner == "1" && edge == "0"
		},
		"millrace_cluster_sent_bytes_total": func(owner, edge string) bool {
			return owner != "0" && edge == "0"
		},
		"millrace_cluster_pulled_bytes_total": func(owner, edge string) bool {
			return owner == "0" && edge != "0"
		},
	} {
		eventually(t, name, func() bool {
			return want(metricOf(nodes[0], name), metricOf(nodes[1], name))
		})
	}
	// A node is not redirected to another node.
	if status := askAsNode(t, nodes[1], "/live/cam"); status != http.StatusMisdirectedRequest {
		t.Errorf("a node that asks one that does not own the stream gets %d", status)
	}
	eventually(t, "the refusal", func() bool {
		return metricOf(nodes[1], `millrace_refused_total{client="node",reason="not_owner"}`) != "0"
	})
	// Nodes send such requests routinely.
	for line := range strings.Lines(nodes[1].Log.String()) {
		if strings.Contains(line, "node refused") && !strings.Contains(line, "level=DEBUG") {
			t.Error(line)
		}
	}
	for _, f := range nodes {
		if f.stop(); strings.Contains(f.Log.String(), clusterToken) {
			t.Error("the token is in the log")
		}
	}
}

func metricOf(f *rtmpFixture, name string) string {
	for line := range strings.Lines(f.Get("/metrics?token=reader").Body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// http11 sends a request by hand, and returns the status line of the response. askAsNode sends a
// request as another node does, and returns the status.
func askAsNode(t *testing.T, f *rtmpFixture, path string) int {
	t.Helper()
	secret := cluster.NewSecret(clusterToken, "http://127.0.0.1:1")
	for range 2 {
		req, err := http.NewRequest("GET", f.URL(path), nil)
		if err != nil {
			t.Fatal(err)
		}
		secret.Sign(req, 1)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if again, err := secret.Check(res); err == nil {
			return res.StatusCode
		} else if !again {
			t.Fatal(err)
		}
	}
	t.Fatal("challenged again and again")
	return 0
}

// A node that shuts down makes its publishers reconnect to another node, whatever the takeover rule
// is. Viewers at other nodes stay.
func TestAPublisherLeavesANodeThatShutsDown(t *testing.T) {
	for _, rule := range []live.Takeover{live.TakeoverAlways, live.TakeoverNever} {
		t.Run(string(rule), func(t *testing.T) { testLeaving(t, rule) })
	}
}

func testLeaving(t *testing.T, rule live.Takeover) {
	t.Parallel()
	nodes := serveCluster(t, 2, func(c *Config) {
		c.PublisherReturn, c.Takeover = testTimeout, rule
	})
	sample := sampleTags()
	publish := func(f *rtmpFixture) *livetest.RTMP {
		c := livetest.NewRTMP(t, dial(t, f.rtmp, 0))
		c.Connect("live", rtmp.Property{Name: "capsEx", Value: 1})
		if s := c.Publish("cam"); s.Level != "status" {
			t.Fatalf("publishing was refused: %+v", s)
		}
		return c
	}
	first := publish(nodes[0])
	_ = first.SendTags(sample...)
	w := nodes[1].Watcher("/live/cam.flv", 0)
	w.Next(1000)
	stopped := make(chan struct{})
	go func() { nodes[0].stop(); close(stopped) }()
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		for first.SendTags(sample...) == nil {
			time.Sleep(10 * time.Millisecond)
		}
	}()
	first.AwaitCode("NetConnection.Connect.ReconnectRequest")
	second := publish(nodes[1])
	_ = second.SendTags(sample...)
	first.AwaitEnd()
	<-sending
	<-stopped
	w.Next(len(sample))
	eventually(t, "the stream to be at the node that continues", func() bool {
		published, _ := where(t, nodes[1:], "cam")
		return len(published) == 1
	})
	second.Call(rtmp.Stream, "deleteStream", nil, 1)
}

// A node without Redis is healthy and serves its streams. For other streams it answers that it
// cannot know.
func TestNodeServesWithoutRedis(t *testing.T) {
	t.Parallel()
	f := serveNode(t, "redis://127.0.0.1:1", "none:",
		func(c *Config) { c.ViewerWait = 10 * time.Millisecond })
	if res := f.Get("/healthz"); res.Status != 200 {
		t.Errorf("/healthz: %d %s, want 200", res.Status, res.Body)
	}
	p := f.publisher("cam")
	if head := f.Watcher("/live/cam.flv", 0).Next(3); string(head) != "FLV" {
		t.Errorf("a viewer gets %q", head)
	}
	if res := f.Get("/live/other"); res.Status != 503 || res.Header.Get("Retry-After") != "2" {
		t.Errorf("a stream of another node: %d %v %s, want 503 and Retry-After", res.Status,
			res.Header, res.Body)
	}
	if got := f.metric("millrace_cluster_reachable"); got != "0" {
		t.Errorf("millrace_cluster_reachable is %s", got)
	}
	if r := f.told(t); len(r.Streams) != 1 || r.Nodes != nil {
		t.Errorf("the node reports %+v, want its own stream and no other nodes", r)
	}
	p.Call(rtmp.Stream, "deleteStream", nil, 1)
}

// If all nodes have a demo, one of them plays it, and another node continues when that one ends.
func TestTheDemoOfACluster(t *testing.T) {
	t.Parallel()
	nodes := serveCluster(t, 3, func(c *Config) { c.Demo, c.Takeover = true, "always" })
	for len(nodes) > 1 {
		var owner *rtmpFixture
		eventually(t, "one demo", func() bool {
			published, _ := where(t, nodes, demo.Name)
			if len(published) == 1 {
				owner = published[0]
			}
			return len(published) == 1
		})
		owner.stop()
		nodes = slices.DeleteFunc(nodes, func(f *rtmpFixture) bool { return f == owner })
	}
	eventually(t, "the last demo", func() bool {
		published, _ := where(t, nodes, demo.Name)
		return len(published) == 1
	})
}

// Nodes use TLS for FLV, HLS and reports, with certificates of an authority in --cluster-ca. A node
// without the flag does not trust them.
func TestNodesOverTLS(t *testing.T) {
	t.Parallel()
	ca := newTestCA(t)
	nodes := serveCluster(t, 2, func(c *Config) {
		c.TLSCert, c.TLSKey = ca.issue(t)
		c.Advertise = strings.Replace(c.Advertise, "http:", "https:", 1)
		c.ClusterCA = ca.file
	})
	client := clientTrusting(t, ca.file, false)
	f := nodes[0]
	stranger := serveNode(t, f.cfg.Cluster, f.cfg.ClusterPrefix,
		func(c *Config) { c.ViewerWait = time.Second })
	body, send := io.Pipe()
	published := make(chan string, 1)
	go func() { published <- exchanged(client, "POST", f.self()+"/live/cam", body) }()
	_, _ = send.Write(demo.Sample)
	f.published("cam", len(demo.Sample)-13)

	for _, n := range nodes[1:] {
		res, err := client.Get(n.self() + "/live/cam.flv")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		got := make([]byte, 10_000)
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got[:3]) != "FLV" {
			t.Errorf("%s sends %q, %v, want FLV", n.self(), got[:3], err)
		}
		list := exchanged(client, "GET", n.self()+"/live/cam/media.m3u8", nil)
		objects := uris(strings.TrimPrefix(list, "200 "))
		if len(objects) < 2 {
			t.Fatalf("the playlist of %s: %s", n.self(), list)
		}
		if got := exchanged(client, "GET", n.self()+"/live/cam/"+objects[0],
			nil); !strings.HasPrefix(got, "200") {
			t.Errorf("%s of %s: %.100s, want 200", objects[0], n.self(), got)
		}
		eventually(t, "all nodes' reports", func() bool {
			var r ops.Report
			text := exchanged(client, "GET", n.self()+"/api/streams", nil)
			if err := json.Unmarshal([]byte(strings.TrimPrefix(text, "200 ")), &r); err != nil {
				t.Fatalf("%v in the report %s", err, text)
			}
			return slices.ContainsFunc(r.Nodes, func(o ops.NodeReport) bool {
				return o.Node == f.self() && o.Error == "" && len(o.Streams) == 1
			})
		})
	}
	if res := stranger.Get("/live/cam"); res.Status != 503 {
		t.Errorf("a node without --cluster-ca: %d %s", res.Status, res.Body)
	}
	stranger.Logged("pulling ended", "x509")
	_ = send.Close()
	if got := <-published; !strings.HasPrefix(got, "200") {
		t.Errorf("the publisher: %s", got)
	}
}

// The file of --cluster-ca must contain a certificate.
func TestClusterCA(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{empty, filepath.Join(dir, "none.pem")} {
		cfg := Defaults()
		cfg.Cluster, cfg.Advertise, cfg.ClusterToken = "redis://127.0.0.1:1", "https://127.0.0.1:1",
			"t"
		cfg.ClusterCA = name
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "--cluster-ca") ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want an error that names --cluster-ca and the file", name, err)
		}
	}
}
