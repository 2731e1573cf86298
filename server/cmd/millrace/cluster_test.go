//go:build unix

package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// Three nodes, one encoder: viewers at all nodes get each video frame once and in order. The owner
// sends each edge one copy, however many viewers it has.
func TestAnyNodeServesAViewer(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	nodes := startNodes(t, 3, redisURL(redis))
	startEncoder(t, "cam", nodes[0].addr)
	var viewers []*watcher
	for range 4 {
		for _, n := range nodes {
			viewers = append(viewers, watch(t, n.addr, "cam"))
		}
	}
	see(t, 2*groupOf, viewers...)
	for i, n := range nodes {
		if got := n.owns("cam"); got != (i == 0) {
			t.Errorf("node %d owns the stream: %v", i, got)
		}
	}
	if s, _ := nodes[0].stream("cam"); len(s.Edges) != 2 || s.Viewers != 6 {
		t.Errorf("the owner has %d viewers and the edges %q, want 6, of them 2 edges", s.Viewers,
			s.Edges)
	}
	if s, _ := nodes[1].stream("cam"); s.Owner != nodes[0].url("") {
		t.Errorf("an edge has the stream from %q", s.Owner)
	}
	for _, v := range viewers {
		v.flawless()
	}
}

// The owner is killed or shuts down, and the encoder reconnects to another node. No viewer at other
// nodes is disconnected.
func TestTheOwnerEnds(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	nodes := startNodes(t, 3, redisURL(redis))
	startEncoder(t, "cam", nodes[0].addr, nodes[1].addr)
	edge, next := watch(t, nodes[2].addr, "cam"), watch(t, nodes[1].addr, "cam")
	edge.sees(groupOf)
	next.sees(groupOf)
	ends := []func(*node){(*node).kill, (*node).kill, (*node).kill, (*node).stop}
	for round, end := range ends {
		old := nodes[round%2]
		end(old)
		edge.sees(2 * groupOf)
		if other := nodes[(round+1)%2]; !other.owns("cam") {
			t.Errorf("round %d: the other node does not own the stream", round)
		}
		old.start()
	}
	gaps, _, longest := edge.flaws()
	t.Logf("%d owners have ended: pictures were missing %d times, for %v at most", len(ends), gaps,
		longest.Round(time.Millisecond))
	if gaps > len(ends) {
		t.Errorf("pictures were missing %d times", gaps)
	}
}

// The encoder moves to another node while its first connection still exists, as behind a balancer.
func TestThePublisherMoves(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	nodes := startNodes(t, 3, redisURL(redis))
	first := startEncoder(t, "cam", nodes[0].addr)
	here, there, edge := watch(t, nodes[0].addr, "cam"), watch(t, nodes[1].addr, "cam"),
		watch(t, nodes[2].addr, "cam")
	all := []*watcher{here, there, edge}
	see(t, groupOf, all...)
	first.moveTo() // it does not return
	for i := range 4 {
		n := nodes[(i+1)%2]
		first.moveTo(nettest.FreeAddr(t))
		next := startEncoder(t, "cam", n.addr)
		eventually(t, "the stream to move", func() bool { return n.owns("cam") })
		see(t, groupOf, all...)
		first = next
	}
	_, _, longest := edge.flaws()
	t.Logf("the longest pause at an edge: %v", longest.Round(time.Millisecond))
}

// An owner is suspended for longer than its lease, another node takes over, and the first one
// resumes. It must release the stream before it sends a frame to a node that pulls from it.
func TestSuspendedOwnerIsReplaced(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	nodes := startNodes(t, 3, redisURL(redis), "--cluster-lease", "1s")
	e := startEncoder(t, "cam", nodes[0].addr)
	here, edge := watch(t, nodes[0].addr, "cam"), watch(t, nodes[2].addr, "cam")
	here.sees(groupOf)
	edge.sees(groupOf)
	nodes[0].pause()
	e.moveTo(nodes[1].addr)
	startEncoder(t, "cam", nodes[1].addr)
	edge.sees(2 * groupOf)
	nodes[0].goOn()
	edge.sees(2 * groupOf)
	here.sees(2 * groupOf)
	eventually(t, "the first owner to be an edge", func() bool {
		s, ok := nodes[0].stream("cam")
		return ok && s.Owner == nodes[1].url("")
	})
}

// Without Redis, all running streams continue. When Redis is back, with or without its data, the
// cluster works as before.
func TestStreamsContinueWithoutRedis(t *testing.T) {
	t.Parallel()
	away := 20 * time.Second
	if testing.Short() {
		away = 4 * time.Second
	}
	redis := redistest.Start(t)
	nodes := startNodes(t, 2, redisURL(redis), "--cluster-lease", "1s")
	const streams = 4
	var viewers []*watcher
	for i := range streams {
		name := fmt.Sprintf("cam%d", i)
		startEncoder(t, name, nodes[i%2].addr)
		viewers = append(viewers, watch(t, nodes[0].addr, name), watch(t, nodes[1].addr, name))
	}
	see(t, groupOf, viewers...)
	redis.Pause(t)
	time.Sleep(away)
	for _, n := range nodes {
		if got := status(n.url("/healthz")); got != 200 {
			t.Errorf("without Redis %s is not healthy: %d", n.addr, got)
		}
	}
	late := watch(t, nodes[1].addr, "cam0") // the stream already exists
	late.sees(1)
	redis.Resume(t)
	see(t, groupOf, viewers...)
	redis.Kill()
	time.Sleep(away)
	redis.Restart(t)
	for i := range streams {
		eventually(t, "the owners to claim again",
			func() bool { return nodes[i%2].owns(fmt.Sprintf("cam%d", i)) })
	}
	see(t, groupOf, viewers...)
	for _, v := range viewers {
		v.flawless()
	}
	// A viewer at the other node finds a new stream.
	startEncoder(t, "new", nodes[0].addr)
	watch(t, nodes[1].addr, "new").sees(groupOf)
}

// The network between two nodes is cut repeatedly. The pull continues where it broke off, or at a
// newer keyframe.
func TestPullContinuesAfterNetworkCut(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	owner := &node{t: t, addr: nettest.FreeAddr(t), rtmp: nettest.FreeAddr(t)}
	between := nettest.NewLink(t, owner.addr)
	owner.advertise = between.Address()
	args := []string{"--cluster", redisURL(redis), "--cluster-token", clusterToken}
	edge := &node{t: t, args: args}
	owner.args = args
	owner.start()
	edge.start()
	startEncoder(t, "cam", owner.addr)
	here, there := watch(t, owner.addr, "cam"), watch(t, edge.addr, "cam")
	here.sees(groupOf)
	there.sees(groupOf)
	for range 5 {
		between.Cut(true)
		time.Sleep(200 * time.Millisecond)
		between.Cut(false)
		there.sees(groupOf)
	}
	here.flawless()
	if _, repeats, _ := there.flaws(); repeats > 0 {
		t.Errorf("video frames came again %d times", repeats)
	}
}

// clusterDemo runs scripts/cluster-demo once. It returns the output, and the balancer's RTMP
// address. If nginx is not empty, it is a script that replaces nginx and finds the path of nginx in
// $real.
func clusterDemo(t *testing.T, nginx string) (out, rtmp string, err error) {
	t.Helper()
	need.Program(t, "redis-server", "valkey-server")
	need.Program(t, "curl")
	real := need.Program(t, "nginx")
	port := nettest.FreePorts(t, 9)
	cmd := exec.Command("../../../scripts/cluster-demo", "once")
	cmd.Env = append(os.Environ(), "PORT="+strconv.Itoa(port))
	if nginx != "" {
		dir := t.TempDir()
		script := []byte("#!/bin/bash\n" + nginx)
		if err := os.WriteFile(filepath.Join(dir, "nginx"), script, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"), "real="+real)
	}
	b, err := cmd.CombinedOutput()
	return string(b), "rtmp://127.0.0.1:" + strconv.Itoa(port+8), err
}

var demoLine = regexp.MustCompile(`(?m)^demo +http://\S+ +(the publisher|http://\S+) +[1-9]`)

// scripts/cluster-demo works. It prints an RTMP address of the balancer only if nginx has the
// stream module.
func TestClusterDemo(t *testing.T) {
	t.Parallel()
	for name, nginx := range map[string]string{
		"": "",
		"no stream module": `if grep -q "stream {" "$4"; then
			echo "nginx: [emerg] unknown directive \"stream\" in $4:69" >&2
			exit 1
		fi
		exec "$real" "$@"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, rtmp, err := clusterDemo(t, nginx)
			if err != nil {
				t.Fatalf("the demo failed: %v\n%s", err, out)
			}
			if n := len(demoLine.FindAllString(out, -1)); n != 3 {
				t.Errorf("the stream is at %d nodes, want 3:\n%s", n, out)
			}
			if nginx != "" && strings.Contains(out, rtmp) {
				t.Errorf("it prints %s, which nothing serves:\n%s", rtmp, out)
			}
		})
	}
}

// When a server of the demo ends, the script says so at once, and shows the server's log.
func TestClusterDemoReportsAServerThatEnds(t *testing.T) {
	t.Parallel()
	for name, nginx := range map[string]string{
		"refuses the configuration": `echo "it does not start" >&2; exit 1`,
		"ends at once": `if [ "${*: -1}" = -t ]; then exit; fi
			echo "it does not start" >&2
			exit 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, _, err := clusterDemo(t, nginx)
			for _, says := range []string{"it does not start", "nginx has ended"} {
				if err == nil || !strings.Contains(out, says) {
					t.Errorf("%v, want %q in\n%s", err, says, out)
				}
			}
		})
	}
}

// soakFor is the duration of TestClusterSoak. Ten minutes find more.
var soakFor = flag.Duration(
	"soak", 0, "how long the soak of a cluster takes; 0: a minute, and with -short a few seconds")

// Nodes are killed and shut down while streams are published at all of them. Each viewer gets the
// published bytes in order, and at the end nothing is left.
func TestClusterSoak(t *testing.T) {
	t.Parallel()
	streams, lasts := 100, time.Minute
	if testing.Short() {
		streams, lasts = 20, 10*time.Second
	}
	if *soakFor > 0 {
		lasts = *soakFor
	}
	redis := redistest.Start(t)
	nodes := startNodes(t, 3, redisURL(redis), "--cluster-lease", "2s", "--log-level", "warn")
	addrs := []string{nodes[0].addr, nodes[1].addr, nodes[2].addr}
	var encoders []*encoder
	var viewers []*returning
	for i := range streams {
		name := "cam" + strconv.Itoa(i)
		order := rand.Perm(3)
		encoders = append(encoders, startEncoder(t, name, addrs[order[0]], addrs[order[1]],
			addrs[order[2]]))
		viewers = append(viewers, watchOn(t, name, addrs[order[2]], addrs[order[0]],
			addrs[order[1]]))
	}
	ended := 0
	for end := time.Now().Add(lasts); time.Now().Before(end); ended++ {
		for _, v := range viewers {
			v.seesMore()
		}
		n := nodes[rand.IntN(3)]
		if ended%2 == 0 {
			n.kill()
		} else {
			n.stop()
		}
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Millisecond)
		n.start()
	}
	pictures, gaps := 0, 0
	for _, v := range viewers {
		v.seesMore()
		v.end()
		pictures, gaps = pictures+v.pictures, gaps+v.gaps
	}
	for _, e := range encoders {
		e.end()
	}
	for _, n := range nodes {
		eventually(t, n.addr+" to give back all blocks and goroutines", func() bool {
			return n.metric("millrace_streams") == 0 &&
				n.metric("millrace_pool_in_use_bytes") == 0 && n.metric("go_goroutines") < 40
		})
	}
	t.Logf("%d streams, %d nodes ended: %d video frames, gaps %d", streams, ended, pictures, gaps)
}

// metric returns the value of a metric without labels, or -1.
func (n *node) metric(name string) float64 {
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	res, err := client.Get(n.url("/metrics"))
	if err != nil {
		return -1
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err == nil {
				return v
			}
		}
	}
	return -1
}

// A returning viewer connects to another node when it is disconnected.
type returning struct {
	t     *testing.T
	name  string
	addrs []string
	now   *watcher
	tries int

	pictures, gaps int // sums of the ended connections
}

func watchOn(t *testing.T, name string, addrs ...string) *returning {
	return &returning{t: t, name: name, addrs: addrs, now: watch(t, addrs[0], name)}
}

// seesMore waits for another video frame, over another connection if necessary.
func (r *returning) seesMore() {
	r.t.Helper()
	r.now.mu.Lock()
	want := r.now.pictures + 1
	r.now.mu.Unlock()
	eventually(r.t, "another picture of "+r.name, func() bool {
		r.now.mu.Lock()
		pictures, err := r.now.pictures, r.now.err
		r.now.mu.Unlock()
		if err != nil {
			r.end()
			r.tries++
			r.now = watch(r.t, r.addrs[r.tries%len(r.addrs)], r.name)
			want = 1
			return false
		}
		return pictures >= want
	})
}

// end closes the current connection, and reports its faults.
func (r *returning) end() {
	r.t.Helper()
	r.now.stop()
	<-r.now.done
	r.now.mu.Lock()
	defer r.now.mu.Unlock()
	for _, p := range r.now.problems {
		r.t.Errorf("%s: %s", r.name, p)
	}
	r.pictures += r.now.pictures
	r.gaps += r.now.gaps
}
