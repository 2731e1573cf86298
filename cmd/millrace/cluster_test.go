//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/need"
	"github.com/millrace-io/millrace/internal/testkit/redistest"
)

// Three nodes, one encoder: viewers at all of them see each picture once and in order, and the owner sends each edge one
// copy, however many viewers that has.
func TestAnyNodeServesAViewer(t *testing.T) {
	redis := redistest.Start(t)
	nodes := startNodes(t, 3, redisURL(redis))
	startEncoder(t, "cam", nodes[0].addr)
	var viewers []*watcher
	for range 4 {
		for _, n := range nodes {
			viewers = append(viewers, watch(t, n.addr, "cam"))
		}
	}
	for _, v := range viewers {
		v.sees(2 * groupOf)
	}
	for i, n := range nodes {
		if got := n.owns("cam"); got != (i == 0) {
			t.Errorf("node %d owns the stream: %v", i, got)
		}
	}
	if s, _ := nodes[0].stream("cam"); len(s.Edges) != 2 || s.Viewers != 6 {
		t.Errorf("the owner has %d viewers and the edges %q, want 6, of them 2 edges", s.Viewers, s.Edges)
	}
	if s, _ := nodes[1].stream("cam"); s.Owner != nodes[0].url("") {
		t.Errorf("an edge has the stream from %q", s.Owner)
	}
	for _, v := range viewers {
		v.flawless()
	}
}

// The owner is killed, and the encoder goes to another node: no viewer elsewhere is disconnected.
func TestTheOwnerIsKilled(t *testing.T) {
	redis := redistest.Start(t)
	nodes := startNodes(t, 3, redisURL(redis))
	startEncoder(t, "cam", nodes[0].addr, nodes[1].addr)
	edge, next := watch(t, nodes[2].addr, "cam"), watch(t, nodes[1].addr, "cam")
	edge.sees(groupOf)
	next.sees(groupOf)
	for round := range 3 {
		old := nodes[round%2]
		old.kill()
		edge.sees(2 * groupOf)
		if other := nodes[(round+1)%2]; !other.owns("cam") {
			t.Errorf("round %d: the other node does not own the stream", round)
		}
		old.start()
	}
	gaps, _, longest := edge.flaws()
	t.Logf("3 owners were killed: pictures were missing %d times, for %v at most", gaps, longest.Round(time.Millisecond))
	if gaps > 3 {
		t.Errorf("pictures were missing %d times", gaps)
	}
}

// The encoder moves to another node while its first connection is still there, as behind a balancer.
func TestThePublisherMoves(t *testing.T) {
	redis := redistest.Start(t)
	nodes := startNodes(t, 3, redisURL(redis))
	first := startEncoder(t, "cam", nodes[0].addr)
	here, there, edge := watch(t, nodes[0].addr, "cam"), watch(t, nodes[1].addr, "cam"), watch(t, nodes[2].addr, "cam")
	all := []*watcher{here, there, edge}
	for _, v := range all {
		v.sees(groupOf)
	}
	first.moveTo() // it will not come back
	for i := range 4 {
		n := nodes[(i+1)%2]
		first.moveTo(freeAddr(t))
		next := startEncoder(t, "cam", n.addr)
		eventually(t, "the stream to move", func() bool { return n.owns("cam") })
		for _, v := range all {
			v.sees(groupOf)
		}
		first = next
	}
	_, _, longest := edge.flaws()
	t.Logf("the longest pause at an edge: %v", longest.Round(time.Millisecond))
}

// An owner is stopped for longer than its lease, another node takes over, and the first one goes on: it must give up
// before it sends a frame to a node that reads from it.
func TestAPausedOwner(t *testing.T) {
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

// Redis is away: what runs goes on everywhere, and all is as before when it is back, with or without its data.
func TestRedisIsAway(t *testing.T) {
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
	for _, v := range viewers {
		v.sees(groupOf)
	}
	redis.Pause(t)
	time.Sleep(away)
	for _, n := range nodes {
		if got := status(n.url("/healthz")); got != 200 {
			t.Errorf("without Redis %s is not healthy: %d", n.addr, got)
		}
	}
	late := watch(t, nodes[1].addr, "cam0") // the stream is there already
	late.sees(1)
	redis.Resume(t)
	for _, v := range viewers {
		v.sees(groupOf)
	}
	redis.Kill()
	time.Sleep(away)
	redis.Restart(t)
	for i := range streams {
		eventually(t, "the owners to claim again", func() bool { return nodes[i%2].owns(fmt.Sprintf("cam%d", i)) })
	}
	for _, v := range viewers {
		v.sees(groupOf)
		v.flawless()
	}
	// A viewer at the other node finds a stream that was claimed anew.
	startEncoder(t, "new", nodes[0].addr)
	watch(t, nodes[1].addr, "new").sees(groupOf)
}

// A node that shuts down gives its streams up, and the others take them over at once.
func TestDrainOfANode(t *testing.T) {
	redis := redistest.Start(t)
	nodes := startNodes(t, 3, redisURL(redis), "--takeover", "never")
	startEncoder(t, "cam", nodes[0].addr, nodes[1].addr)
	edge := watch(t, nodes[2].addr, "cam")
	edge.sees(groupOf)
	nodes[0].stop()
	edge.sees(2 * groupOf)
	if !nodes[1].owns("cam") {
		t.Error("the other node does not own the stream")
	}
}

// scripts/cluster-demo does what it says.
func TestClusterDemo(t *testing.T) {
	for _, program := range []string{"redis-server", "nginx", "curl"} {
		need.Program(t, program)
	}
	_, port, _ := strings.Cut(freeAddr(t), ":")
	cmd := exec.Command("../../scripts/cluster-demo", "once")
	cmd.Env = append(os.Environ(), "PORT="+port)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	from := regexp.MustCompile(`(?m)^demo +http://\S+ +(the publisher|http://\S+) +[1-9]`)
	if n := len(from.FindAll(out, -1)); n != 3 {
		t.Errorf("the stream is at %d nodes, want 3:\n%s", n, out)
	}
}
