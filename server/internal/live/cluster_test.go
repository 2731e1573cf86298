package live_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/live/rendition"
	"github.com/millrace-io/millrace/server/internal/refuse"
	"github.com/millrace-io/millrace/server/internal/testkit/livetest"
)

// A testDirectory records the owner of each stream. The latest claim wins.
type testDirectory struct {
	mu     sync.Mutex
	epoch  uint64
	owners map[string]*testLease
	away   atomic.Bool // it is unreachable
}

// owner returns the lease of a stream, or nil.
func (d *testDirectory) owner(name string) *testLease {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owners[name]
}

// A testLease is a lease of a testNode.
type testLease struct {
	node    *testNode
	name    string
	epoch   atomic.Uint64
	gone    atomic.Bool
	stopped atomic.Bool // the lease is not current
	told    atomic.Int32
}

func (l *testLease) Epoch() uint64 { return l.epoch.Load() }
func (l *testLease) Current() bool { return l.Epoch() != 0 && !l.gone.Load() && !l.stopped.Load() }
func (l *testLease) Held() bool    { return !l.gone.Load() }
func (l *testLease) Tell()         { l.told.Add(1) }

func (l *testLease) Release() {
	d := l.node.dir
	d.mu.Lock()
	defer d.mu.Unlock()
	if l.gone.Store(true); d.owners[l.name] == l {
		delete(d.owners, l.name)
	}
}

// A testNode is a server of a cluster. It is a short replacement for package cluster.
type testNode struct {
	*rtmpFixture
	dir   *testDirectory
	via   string // address for other nodes
	pulls atomic.Int32
	times atomic.Int32 // number of pulls so far
	ended chan error   // the end of each pull, as long as there is room
	all   sync.WaitGroup

	mu      sync.Mutex
	pulling map[string]bool
}

func newTestDirectory() *testDirectory { return &testDirectory{owners: map[string]*testLease{}} }

// A leaseCluster is a cluster of one node. It grants a new lease if the last one is not held.
type leaseCluster struct {
	node   testNode
	leases []*testLease
}

func (c *leaseCluster) Claim(_ context.Context, name string) (live.Lease, error) {
	if n := len(c.leases); n > 0 && c.leases[n-1].Held() {
		return c.leases[n-1], nil
	}
	l := &testLease{node: &c.node, name: name}
	c.leases = append(c.leases, l)
	l.epoch.Store(uint64(len(c.leases)))
	return l, nil
}
func (c *leaseCluster) Want(string)                              {}
func (c *leaseCluster) IsElsewhere(context.Context, string) bool { return false }
func (c *leaseCluster) Reachable() bool                          { return true }

// A publisher that is refused, because the one before does not end, gives up its lease, unless the
// one before has the same lease.
func TestRefusedPublisherGivesUpItsLease(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &leaseCluster{node: testNode{dir: newTestDirectory()}}
			h := newHubTest(t, func(cfg *live.Config) { cfg.Cluster = c })
			first := h.publish(newScript(1, 2, 100).tags...)
			if lost {
				c.leases[0].gone.Store(true)
				live.NewPeers(h.Hub).Lost("cam", 1)
			}
			_, err := h.Open("cam", "second", live.Terms{})
			if live.PublishStatus(err) != http.StatusConflict {
				t.Errorf("%v, want status 409", err)
			}
			if last := c.leases[len(c.leases)-1]; last.Held() == lost ||
				len(c.leases) != map[bool]int{false: 1, true: 2}[lost] {
				t.Errorf("lost %v: lease %d is held: %v", lost, len(c.leases), last.Held())
			}
			h.done(first, nil)
			h.Drain(t.Context())
		})
	}
}

// In a cluster, viewers of an absent stream wait for a pull, even if viewers do not wait otherwise.
func TestOnlyAClusterMakesViewersWait(t *testing.T) {
	for _, test := range []struct {
		cluster    bool
		wait, want time.Duration
	}{
		{false, 0, 0}, {false, time.Minute, time.Minute}, {true, 0, live.PullWait},
		{true, time.Minute, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHubTest(t, func(cfg *live.Config) {
				if cfg.ViewerWait = test.wait; test.cluster {
					cfg.Cluster = &leaseCluster{}
				}
			})
			began := time.Now()
			err := h.AwaitStream(t.Context(), "cam")
			if took := time.Since(began); took != test.want || err == nil {
				t.Errorf("%+v: %v after %v", test, err, took)
			}
		})
	}
}

// node adds a server. change may be nil.
func (d *testDirectory) node(t testing.TB, change func(*live.Config)) *testNode {
	t.Helper()
	n := &testNode{dir: d, pulling: map[string]bool{}, ended: make(chan error, 1<<10)}
	n.rtmpFixture = serveRTMP(t, func(c *live.Config) {
		c.Cluster, c.PublisherReturn = n, testTimeout
		if change != nil {
			change(c)
		}
	})
	n.via = n.URL("")
	t.Cleanup(func() {
		n.stop()
		n.all.Wait()
	})
	return n
}

func (n *testNode) Reachable() bool { return !n.dir.away.Load() }

func (n *testNode) IsElsewhere(_ context.Context, name string) bool {
	l := n.dir.owner(name)
	return l != nil && l.node != n
}

func (n *testNode) Claim(_ context.Context, name string) (live.Lease, error) {
	d := n.dir
	d.mu.Lock()
	was := d.owners[name]
	if was != nil && was.node == n {
		d.mu.Unlock()
		return was, nil
	}
	l := &testLease{node: n, name: name}
	d.epoch++
	l.epoch.Store(d.epoch)
	if d.away.Load() {
		l.epoch.Store(0)
	}
	d.owners[name] = l
	d.mu.Unlock()
	if was != nil {
		was.gone.Store(true)
		live.NewPeers(was.node.Hub).Lost(name, was.Epoch())
	}
	return l, nil
}

// Want pulls the stream until it is no longer wanted.
func (n *testNode) Want(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pulling[name] || n.Closing().Err() != nil {
		return
	}
	n.pulling[name] = true
	n.all.Go(func() {
		for {
			n.mu.Lock()
			if !live.NewPeers(n.Hub).Wanted(name) {
				n.pulling[name] = false
				n.mu.Unlock()
				return
			}
			n.mu.Unlock()
			if l := n.dir.owner(name); l != nil && l.node != n && l.Epoch() != 0 {
				n.pull(name, l)
			}
			time.Sleep(time.Millisecond)
		}
	})
}

func (n *testNode) pull(name string, l *testLease) {
	n.pulls.Add(1)
	n.times.Add(1)
	err := live.NewPeers(n.Hub).Pull(context.Background(), name,
		live.Owner{Node: l.node.via, Epoch: l.Epoch(), Proof: askingAs(n.via)})
	n.pulls.Add(-1)
	select {
	case n.ended <- err:
	default:
	}
}

// publish starts a publisher of the stream cam. It sends sc when the given number of other nodes
// read the stream.
func (n *testNode) publish(sc *script, edges int) *livetest.Publisher {
	n.T.Helper()
	p := n.Publisher("cam")
	p.Send(sc.start())
	n.edges(edges)
	p.Send(join(sc.tags))
	return p
}

// pullsFrom makes n pull the stream cam from its owner, for a viewer. The owner's publisher sends
// sc. pullsFrom returns when the viewer has got all of it.
func (n *testNode) pullsFrom(owner *testNode, sc *script) (*livetest.Publisher, *livetest.Watcher) {
	n.T.Helper()
	w := n.Ask("/live/cam", 0)
	n.waiting("cam", 1)
	p := owner.publish(sc, 1)
	w.Begin()
	w.Next(len(sc.whole()))
	return p, w
}

// edges waits until want other nodes read the stream cam.
func (n *testNode) edges(want int) {
	n.T.Helper()
	eventually(n.T, fmt.Sprintf("%d other nodes", want), func() bool {
		s := n.LookUp("cam")
		return s != nil && len(n.Hub.Info(s).Edges) == want
	})
}

// info returns the description of a stream, which must exist.
func (n *testNode) info(name string) live.StreamInfo {
	n.T.Helper()
	list := n.Streams()
	i := slices.IndexFunc(list, func(i live.StreamInfo) bool { return i.Name == name })
	if i < 0 {
		n.T.Fatalf("there is no stream %s", name)
	}
	return list[i]
}

// behind puts a network link before n, which other nodes use.
func (n *testNode) behind() *nettest.Link {
	n.T.Helper()
	l := nettest.NewLink(n.T, n.Addr)
	n.via = "http://" + l.Address()
	return l
}

// Another node may ask for a stream when its owner has received the header of one track only. The
// FLV header for this node still announces both tracks.
func TestAPullBetweenSequenceHeaders(t *testing.T) {
	sc := newScript(2, 5, 3000)
	for n := range len(sc.config) + 1 {
		owner := newTestDirectory().node(t, nil)
		p := owner.Publisher("cam")
		p.Send(append(slices.Clone(sc.header), join(sc.config[:n])...))
		eventually(t, "the headers", func() bool {
			return owner.LookUp("cam") != nil && owner.Hub.Stats().FramesIn == int64(n)
		})
		v, err := live.NewAdmission(owner.Hub).Admit(t.Context(), live.WatchRequest{Name: "cam",
			Format: rendition.FLV, Node: "http://another"})
		if err != nil {
			t.Fatal(err)
		}
		if flags := v.Head()[4]; flags != 5 {
			t.Errorf("after %d tags: flags %d, want 5", n, flags)
		}
		v.Decline()
		p.End()
	}
}

// A pulled stream equals the owner's, byte for byte, and is pulled once for any number of viewers.
// The pull ends some time after the last viewer has left.
func TestAStreamIsPulledOnce(t *testing.T) {
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		t.Run(latency.String(), func(t *testing.T) {
			d := newTestDirectory()
			set := func(c *live.Config) { c.Latency = latency }
			owner, edge := d.node(t, set), d.node(t, set)
			edge.SetPullIdle(300 * time.Millisecond)
			sc := newScript(2, 5, 3000)
			const viewers = 20
			var list []*livetest.Watcher
			for range viewers {
				list = append(list, edge.Ask("/live/cam", 0))
			}
			edge.waiting("cam", viewers)
			p := owner.publish(sc, 1)
			for _, w := range list {
				w.Begin()
				same(t, "a viewer", w.Next(len(sc.whole())), sc.whole())
			}
			late := edge.Watcher("/live/cam", 0)
			same(t, "a late viewer", late.Next(len(sc.from(sc.keys[1]))), sc.from(sc.keys[1]))
			owned, pulled := owner.info("cam"), edge.info("cam")
			if owned.Epoch != 1 || owned.Owner != "" ||
				fmt.Sprint(owned.Edges) != fmt.Sprint([]string{edge.via}) ||
				owned.Viewers != 1 {
				t.Errorf("the owner: %+v", owned)
			}
			if pulled.Epoch != 1 || pulled.Owner != owner.via || pulled.Viewers != viewers+1 ||
				pulled.Edges != nil {
				t.Errorf("the edge: %+v", pulled)
			}
			if _, ok := edge.Owns("cam"); ok {
				t.Error("the edge owns what it has pulled")
			}
			if epoch, ok := owner.Owns("cam"); !ok || epoch != 1 {
				t.Error("the owner does not own its stream")
			}
			for _, w := range append(list, late) {
				_ = w.Conn.Close()
			}
			owner.viewers(0)
			if err := <-edge.ended; err != nil {
				t.Errorf("the pull ended with %v", err)
			}
			if n := edge.times.Load(); n != 1 {
				t.Errorf("%d pulls, want 1", n)
			}
			owner.Logged("viewer started", "node="+edge.via)
			edge.Logged("publisher ended", "it has no viewers", "status=200")
			eventually(t, "the end of the stream", func() bool { return edge.LookUp("cam") == nil })
			p.End()
		})
	}
}

func TestBytesArePulled(t *testing.T) {
	d := newTestDirectory()
	owner, edge := d.node(t, func(c *live.Config) { c.PublisherReturn = 0 }), d.node(t, nil)
	w := edge.Ask("/live/raw", 0)
	edge.waiting("raw", 1)
	p := owner.Publisher("raw")
	owner.waiting("raw", 1)
	p.Send([]byte("any bytes"))
	w.Begin()
	same(t, "bytes", w.Next(9), []byte("any bytes"))
	p.Send([]byte(" and more"))
	p.End()
	same(t, "bytes", w.Rest(), []byte(" and more"))
}

// The connection between two nodes is cut after every number of bytes: in the header, in the line
// of a chunk, and in a tag. If the owner stays the same, viewers get every frame once, and in
// order.
func TestPullContinuesAfterACutAnywhere(t *testing.T) {
	t.Parallel()
	d := newTestDirectory()
	owner, edge := d.node(t, func(c *live.Config) { c.Latency = 0 }), d.node(t, nil)
	link := owner.behind()
	link.Limit(1)
	sc := newScript(3, 4, 300)
	var watching sync.WaitGroup
	var byRTMP [][]byte
	var byMP4 []byte
	w := edge.Ask("/live/cam", 0)
	watching.Go(func() { byMP4 = edge.Watcher("/live/cam.mp4", 0).Rest() })
	watching.Go(func() { byRTMP, _ = edge.playRTMP("cam", 0).Rest() })
	edge.waiting("cam", 3)

	p := owner.Publisher("cam")
	stop := make(chan struct{})
	watching.Go(func() {
		rnd, limit := rand.New(rand.NewPCG(1, 2)), int64(1)
		for {
			select {
			case err := <-edge.ended:
				if errors.Is(err, live.ErrOwnerEnded) || err == nil {
					t.Errorf("a pull ended with %v", err)
				}
				// Each time the GOP is sent again from its start.
				if limit += 1 + rnd.Int64N(9); limit > 6000 {
					limit = 1
				}
				link.Limit(limit)
			case <-stop:
				return
			}
		}
	})
	p.Send(sc.start())            // nothing of this is lost if the connection is cut before it
	for i, key := range sc.keys { // the next GOP is sent when this one has arrived
		group := sc.tags[key:]
		if i+1 < len(sc.keys) {
			group = sc.tags[key:sc.keys[i+1]]
		}
		p.Send(join(group))
		if i == 0 {
			w.Begin()
			same(t, "the start", w.Next(len(sc.start())), sc.start())
		}
		same(t, "a group", w.Next(len(join(group))), join(group))
	}
	close(stop)
	edge.stop()
	if rest := w.Rest(); len(rest) > 0 {
		t.Errorf("%d bytes too many", len(rest))
	}
	watching.Wait()
	wantTags(t, "RTMP", byRTMP, slices.Concat(sc.config, sc.tags))
	if n := contiguous(t, stretches(t, byMP4)); n != len(sc.tags) {
		t.Errorf("%d samples of MP4, want %d", n, len(sc.tags))
	}
	if n := edge.times.Load(); n < 50 {
		t.Errorf("only %d pulls", n)
	}
}

// Frames that the owner sent while the connection was cut are lost, up to its newest keyframe. The
// clock stays the owner's.
func TestAPullThatMissesAGroup(t *testing.T) {
	d := newTestDirectory()
	owner, edge := d.node(t, nil), d.node(t, nil)
	link := owner.behind()
	sc := newScript(4, 3, 500)
	w, m := edge.Ask("/live/cam", 0), edge.Ask("/live/cam.mp4", 0)
	edge.waiting("cam", 2)
	p := owner.Publisher("cam")
	p.Send(sc.start())
	owner.edges(1)
	first := sc.tags[:sc.keys[1]+2]
	p.Send(join(first))
	w.Begin()
	m.Begin()
	n := len(sc.start()) + len(join(first))
	same(t, "the first group", w.Next(n), sc.whole()[:n])
	link.Cut(true)
	p.Send(join(sc.tags[len(first) : sc.keys[3]+1]))
	owner.published("cam", len(sc.whole())-len(sc.header)-len(join(sc.tags[sc.keys[3]+1:])))
	link.Cut(false)
	p.Send(join(sc.tags[sc.keys[3]+1:]))
	same(t, "the last group", w.Next(len(join(sc.tags[sc.keys[3]:]))), join(sc.tags[sc.keys[3]:]))
	edge.stop()
	if rest := w.Rest(); len(rest) > 0 {
		t.Errorf("%d bytes too many", len(rest))
	}
	if n := contiguous(t, stretches(t, m.Rest())); n > len(first)+len(sc.tags[sc.keys[3]:]) {
		t.Errorf("%d samples of MP4", n)
	}
	p.End()
}

// A stream that was accepted while no owner was known turns out to be another node's.
func TestLateRefusalEndsThePublisher(t *testing.T) {
	d := newTestDirectory()
	n := d.node(t, nil)
	d.away.Store(true)
	p := n.Publisher("cam")
	p.Send(newScript(1, 3, 500).whole())
	w := n.Watcher("/live/cam", 0)
	l := d.owner("cam")
	l.Release()
	live.NewPeers(n.Hub).Lost("cam", 1) // for another ownership
	if _, ok := n.Owns("cam"); !ok {
		t.Error("it is lost with an epoch that it does not have")
	}
	live.NewPeers(n.Hub).Lost("cam", 0)
	if res := p.Wait(); res.Status != http.StatusConflict {
		t.Errorf("the publisher: %d %s", res.Status, res.Body)
	}
	if _, ok := n.Owns("cam"); ok || !live.NewPeers(n.Hub).Wanted("cam") {
		t.Error("its viewer does not want it from another node")
	}
	_ = w.Conn.Close()
}

// Another node may pull a stream that has its maximum number of viewers. The lease knows whether
// the publisher is silent.
func TestLimitsAreNotForPeers(t *testing.T) {
	d := newTestDirectory()
	owner := d.node(t, func(c *live.Config) { c.MaxViewers, c.MaxStreamViewers = 1, 1 })
	edge := d.node(t, nil)
	sc := newScript(1, 3, 500)
	near, far := owner.Ask("/live/cam", 0), edge.Ask("/live/cam", 0)
	owner.waiting("cam", 1)
	edge.waiting("cam", 1)
	p := owner.publish(sc, 1)
	for _, w := range []*livetest.Watcher{near, far} {
		w.Begin()
		same(t, "the stream", w.Next(len(sc.whole())), sc.whole())
	}
	before, away := live.NewPeers(owner.Hub).Silent("cam")
	time.Sleep(20 * time.Millisecond)
	if after, gone := live.NewPeers(owner.Hub).Silent("cam"); away || gone ||
		after < before+20*time.Millisecond {
		t.Errorf("silent for %v and then %v, away %v, %v", before, after, away, gone)
	}
	p.Cut()
	owner.waits("cam")
	if _, away := live.NewPeers(owner.Hub).Silent("cam"); !away {
		t.Error("the publisher is there")
	}
	if silent, away := live.NewPeers(edge.Hub).Silent("cam"); silent > 0 || away {
		t.Error("a node knows of the publisher of a stream that it does not own")
	}
}

// The publisher moves to another node. Viewers of each format stay, at a third node and at the old
// one. The clock does not go back, and video resumes at the new keyframe. A node that pulls from
// the new owner before the owner has sent a keyframe does not get the old owner's frames again.
func TestAPublisherMoves(t *testing.T) {
	for _, how := range []string{"to a new node", "to an edge", "while it is away",
		"after the end"} {
		t.Run(how, func(t *testing.T) {
			d := newTestDirectory()
			first := d.node(t, func(c *live.Config) {
				if how == "after the end" {
					c.PublisherReturn = 0
				}
			})
			second, edge := d.node(t, nil), d.node(t, nil)
			edge.SetCleanEndWait(testTimeout)
			nodes, edges, edgesLater := []*testNode{first, edge}, 1, 2
			switch how {
			case "to an edge":
				nodes, edges = append(nodes, second), 2
			case "after the end":
				nodes, edgesLater = []*testNode{edge}, 1
			}
			sc := newScript(2, 3, 3000)
			var watching sync.WaitGroup
			byFLV, byRTMP, byMP4 := make([][]byte, 3), make([][][]byte, 3), make([][]byte, 3)
			for i, n := range nodes {
				watching.Go(func() { byFLV[i] = n.Watcher("/live/cam", 0).Rest() })
				watching.Go(func() { byMP4[i] = n.Watcher("/live/cam.mp4", 0).Rest() })
				watching.Go(func() { byRTMP[i], _ = n.playRTMP("cam", 0).Rest() })
				n.waiting("cam", 3)
			}
			one := first.publish(sc, edges)
			size := len(sc.whole()) - len(sc.header)
			for _, n := range nodes {
				n.published("cam", size)
			}
			// In the stream's time, so that the frames have different times.
			time.Sleep(50 * time.Millisecond)

			ended := how == "after the end"
			if ended {
				one.End()
				if err := <-edge.ended; err != live.ErrOwnerEnded {
					t.Errorf("the pull ended with %v", err)
				}
			}
			away := how == "while it is away"
			if away {
				one.Cut()
				first.waits("cam")
			}
			two := second.Publisher("cam")
			two.Send(sc.start())
			for _, n := range nodes { // an earlier, failed attempt may have left an edge
				eventually(t, "the new owner", func() bool {
					s := n.LookUp("cam")
					return n == second || s != nil && n.Hub.Info(s).Owner == second.via &&
						!n.Hub.Info(s).IsWaiting()
				})
			}
			second.edges(edgesLater)
			two.Send(join(sc.tags))
			if !ended && !away {
				if res := one.Wait(); res.Status != http.StatusConflict ||
					!strings.Contains(res.Body, "another node") {
					t.Errorf("the first publisher: %d %s", res.Status, res.Body)
				}
			}
			for _, n := range nodes {
				n.published("cam", size+len(join(sc.tags)))
			}
			if n := nodes[0].info("cam"); n.Epoch != 2 || n.Owner != second.via {
				t.Errorf("the first node: %+v", n)
			}
			for _, n := range nodes {
				n.stop()
			}
			watching.Wait()
			for i := range nodes {
				tags := cut(t, byFLV[i][len(sc.header):])
				checkClock(t, tags)
				want := slices.Concat(sc.config, sc.tags, sc.tags)
				if same(t, "FLV", untimed(tags), untimed(want)); len(tags) != len(want) {
					t.Fatalf("%s: %d tags, want %d", nodes[i].via, len(tags), len(want))
				}
				wantTags(t, "RTMP", byRTMP[i], tags)
				// One sample may still wait because of the pause.
				if n := contiguous(t, stretches(t, byMP4[i])); n < 2*len(sc.tags)-2 {
					t.Errorf("%d samples of MP4, want %d", n, 2*len(sc.tags))
				}
			}
			two.End()
		})
	}
}

// A stream that has ended at its owner ends soon at other nodes, however long they wait for a
// missing publisher. Their viewers get a regular end.
func TestTheEndOfAPulledStream(t *testing.T) {
	d := newTestDirectory()
	owner, edge := d.node(t, func(c *live.Config) { c.PublisherReturn = 0 }),
		d.node(t, func(c *live.Config) { c.PublisherReturn = time.Hour })
	edge.SetCleanEndWait(time.Millisecond)
	p, w := edge.pullsFrom(owner, newScript(1, 3, 500))
	p.End()
	if err := <-edge.ended; err != live.ErrOwnerEnded {
		t.Errorf("the pull ended with %v", err)
	}
	if rest := w.Rest(); len(rest) > 0 {
		t.Errorf("%d more bytes", len(rest))
	}
	edge.Logged("viewer ended", `reason="stream ended"`)
}

// Other nodes are told at once that a publisher is away, and that it has returned.
func TestUnreachableOwnerIsReported(t *testing.T) {
	n := newTestDirectory().node(t, nil)
	sc := newScript(1, 3, 500)
	p := n.publish(sc, 0)
	n.published("cam", len(sc.whole())-len(sc.header))
	l := n.dir.owner("cam")
	for i := range int32(2) {
		if got := l.told.Load(); got != 2*i {
			t.Errorf("told %d times", got)
		}
		p.Cut()
		eventually(t, "the publisher to be away",
			func() bool {
				_, away := live.NewPeers(n.Hub).Silent("cam")
				return away && l.told.Load() == 2*i+1
			})
		p = n.publish(sc, 0)
		eventually(t, "the publisher to be back",
			func() bool {
				_, away := live.NewPeers(n.Hub).Silent("cam")
				return !away && l.told.Load() == 2*i+2
			})
	}
	p.End()
}

// The stream gets a publisher at this node, and is no longer pulled.
func TestAPublisherReplacesAPull(t *testing.T) {
	for _, takeover := range []live.Takeover{live.TakeoverAlways, live.TakeoverStalled,
		live.TakeoverNever} {
		t.Run(string(takeover), func(t *testing.T) {
			d := newTestDirectory()
			owner, edge := d.node(t, nil), d.node(t, func(c *live.Config) { c.Takeover = takeover })
			sc := newScript(1, 3, 500)
			w := edge.Ask("/live/cam", 0)
			edge.waiting("cam", 1)
			one := owner.publish(sc, 1)
			edge.published("cam", len(sc.whole())-len(sc.header))
			two := edge.Publisher("cam") // at once, because a pull has no minimum time
			two.Send(sc.whole())
			w.Begin()
			w.Next(len(sc.whole()) + len(join(sc.tags)))
			one.Wait()
			i := edge.info("cam")
			if epoch, ok := edge.Owns("cam"); !ok || epoch != 2 || i.Epoch != 2 || i.Owner != "" {
				t.Errorf("epoch %d, owned %v; %+v, want epoch 2, owned here", epoch, ok, i)
			}
			if i.Returns != 1 || i.Takeovers != 0 {
				t.Errorf("%d returns and %d takeovers", i.Returns, i.Takeovers)
			}
			if _, ok := owner.Owns("cam"); ok {
				t.Error("two nodes own the stream")
			}
			err := <-edge.ended
			// Lost may have been faster.
			if err != live.ErrTakenOver && !errors.Is(err, io.ErrUnexpectedEOF) && !isReset(err) {
				t.Errorf("the pull ended with %v", err)
			}
			two.End()
		})
	}
}

func isReset(err error) bool { return err != nil && strings.Contains(err.Error(), "reset") }

// Other nodes get nothing of streams that this node does not own, or does not own yet. Therefore no
// loop can form.
func TestPeersOfAnotherNode(t *testing.T) {
	d := newTestDirectory()
	owner, edge := d.node(t, nil), d.node(t, nil)
	sc := newScript(1, 3, 500)
	p, _ := edge.pullsFrom(owner, sc)
	ask := func(n *testNode, name string) int {
		return n.Request("GET", "/live/"+name, "", nodeHeader+": http://other").Status
	}
	if status := ask(edge, "cam"); status != http.StatusMisdirectedRequest {
		t.Errorf("a pulled stream: %d", status)
	}
	if status := ask(edge, "none"); status != http.StatusMisdirectedRequest {
		t.Errorf("no stream: %d", status)
	}
	err := live.NewPeers(owner.Hub).Pull(t.Context(), "cam",
		live.Owner{Node: edge.via, Epoch: 0, Proof: askingAs(owner.via)})
	var refused *refuse.Refusal
	if !errors.As(err, &refused) || refused.Status != http.StatusMisdirectedRequest {
		t.Errorf("a loop of nodes: %v, want status 421", err)
	}
	d.away.Store(true)
	q := owner.Publisher("new")
	q.Send(sc.whole())
	owner.published("new", 1)
	if status := ask(owner, "new"); status != http.StatusMisdirectedRequest {
		t.Errorf("a stream without an epoch: %d", status)
	}
	if epoch, ok := owner.Owns("new"); epoch != 0 || !ok {
		t.Errorf("a stream without an epoch: %d, %v", epoch, ok)
	}
	local := owner.Watcher("/live/new", 0)
	same(t, "a viewer", local.Next(len(sc.whole())), sc.whole())
	p.End()
	q.End()
}

// Without a current lease, other nodes get nothing, and viewers of this node get everything.
func TestALeaseThatIsNotCurrent(t *testing.T) {
	d := newTestDirectory()
	owner, edge := d.node(t, nil), d.node(t, nil)
	sc := newScript(2, 3, 500)
	remote, local := edge.Ask("/live/cam", 0), owner.Ask("/live/cam", 0)
	edge.waiting("cam", 1)
	owner.waiting("cam", 1)
	p := owner.Publisher("cam")
	p.Send(sc.start())
	owner.edges(1)
	p.Send(sc.tags[0])
	n := len(sc.start()) + len(sc.tags[0])
	for _, w := range []*livetest.Watcher{remote, local} {
		w.Begin()
		same(t, "the start", w.Next(n), sc.whole()[:n])
	}
	l := d.owner("cam")
	l.stopped.Store(true)
	p.Send(join(sc.tags[1:3]))
	m := n + len(join(sc.tags[1:3]))
	same(t, "a viewer here", local.Next(m-n), sc.whole()[n:m])
	time.Sleep(50 * time.Millisecond) // a frame would arrive in this time
	if got := edge.LookUp("cam").Forms().Stats().PublishedBytes; got != uint64(n-len(sc.header)) {
		t.Errorf("the other node has %d bytes, want %d", got, n-len(sc.header))
	}
	l.stopped.Store(false)
	p.Send(join(sc.tags[3:]))
	same(t, "a viewer there", remote.Next(len(sc.whole())-n), sc.whole()[n:])

	l.stopped.Store(true) // this node then notices that the stream is another node's
	p.Send(join(sc.tags))
	local.Next(len(join(sc.tags)))
	l.gone.Store(true)
	live.NewPeers(owner.Hub).Lost("cam", l.Epoch())
	if err := <-edge.ended; !isReset(err) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the pull ended with %v", err)
	}
	got, want := edge.LookUp("cam").Forms().Stats().PublishedBytes, len(sc.whole())-len(sc.header)
	if got != uint64(want) {
		t.Errorf("the other node has %d bytes, want %d", got, want)
	}
	if res := p.Wait(); res.Status != http.StatusConflict {
		t.Errorf("the publisher: %d %s", res.Status, res.Body)
	}
}

// A node that shuts down releases its streams, and does not tell other nodes that the streams have
// ended.
func TestDrainCutsPeers(t *testing.T) {
	d := newTestDirectory()
	owner, edge := d.node(t, nil), d.node(t, nil)
	sc := newScript(1, 3, 500)
	p, w := edge.pullsFrom(owner, sc)
	owner.stop()
	if err := <-edge.ended; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the pull ended with %v", err)
	}
	if d.owner("cam") != nil {
		t.Error("the lease stays")
	}
	p.Wait()
	next := edge.Publisher("cam")
	next.Send(sc.whole())
	w.Next(len(join(sc.tags)))
	next.End()
}

// Only owned streams are recorded, and HLS is made at the owner.
func TestRecordingAndHLSOfOwnedStreams(t *testing.T) {
	d := newTestDirectory()
	var first, second testRecorder
	set := func(r *testRecorder) func(*live.Config) {
		return func(c *live.Config) {
			c.Record = func(string) live.Recorder { r.began.Add(1); return r }
			c.HLS = hlslive.Config{Part: 100 * time.Millisecond, Segment: time.Second, Segments: 4,
				MaxBytes: 1 << 20}
		}
	}
	one, two := d.node(t, set(&first)), d.node(t, set(&second))
	sc := newScript(4, 10, 500)
	p, _ := two.pullsFrom(one, sc)
	if first.began.Load() != 1 || second.began.Load() != 0 {
		t.Errorf("%d and %d recordings", first.began.Load(), second.began.Load())
	}
	if _, err := live.NewHLS(two.Hub).Master(t.Context(), "cam"); err != hlslive.ErrElsewhere {
		t.Errorf("HLS of a pulled stream: %v", err)
	}
	if _, err := live.NewHLS(one.Hub).Master(t.Context(), "cam"); err != nil {
		t.Errorf("HLS of an owned stream: %v", err)
	}
	blocked := make(chan error, 1)
	go func() {
		list, err := live.NewHLS(one.Hub).Media(t.Context(), "cam", hlslive.MediaName, hls.Reload{},
			false)
		if err == nil {
			next := hint(t, string(list.Text))
			_, err = live.NewHLS(one.Hub).Media(t.Context(), "cam", hlslive.MediaName,
				hls.Reload{MSN: next.MSN + 1, Part: next.Part}, true)
		}
		blocked <- err
	}()
	eventually(t, "a request that waits", func() bool { return one.Stats().HLS.Waiting == 1 })
	q := two.Publisher("cam")
	q.Send(sc.whole())
	if err := <-blocked; err != hlslive.ErrElsewhere {
		t.Errorf("a request that waits: %v", err)
	}
	if _, err := live.NewHLS(one.Hub).Master(t.Context(), "cam"); err != hlslive.ErrElsewhere {
		t.Errorf("HLS of a lost stream: %v", err)
	}
	var c millrace.Chain
	if err := live.NewHLS(one.Hub).Object(t.Context(), "cam", hls.Object{},
		&c); err != hlslive.ErrElsewhere {
		t.Errorf("an object of a lost stream: %v", err)
	}
	eventually(t, "the end of the recording", func() bool { return first.closed.Load() == 1 })
	eventually(t, "a recording at the new owner", func() bool { return second.began.Load() == 1 })
	if _, err := live.NewHLS(two.Hub).Master(t.Context(), "cam"); err != nil {
		t.Errorf("HLS at the new owner: %v", err)
	}
	p.Wait()
	q.End()
}

// A slowRecorder takes a second to close.
type slowRecorder struct{ testRecorder }

func (r *slowRecorder) Close() {
	time.Sleep(time.Second)
	r.testRecorder.Close()
}

// A drain waits until the recorders are closed.
func TestDrainAwaitsRecorders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r slowRecorder
		h := newHubTest(t, func(c *live.Config) {
			c.Record = func(string) live.Recorder { return &r }
		})
		sc := newScript(1, 5, 1000)
		p := h.publish(sc.config...)
		h.send(p, sc.tags...)
		go func() {
			<-p.Lifetime().Done()
			h.done(p, nil)
		}()
		h.Drain(t.Context())
		if n := r.closed.Load(); n != 1 {
			t.Errorf("%d recorders are closed after the drain, want 1", n)
		}
		time.Sleep(time.Second) // after a failure
	})
}

// askingAs is the address of the requesting node. Test nodes accept it without a proof.
type askingAs string

func (a askingAs) Sign(req *http.Request, _ uint64) { req.Header.Set(nodeHeader, string(a)) }

// An epochNote is an askingAs that remembers the epoch of the last request.
type epochNote struct {
	askingAs
	epoch uint64
}

func (n *epochNote) Sign(req *http.Request, epoch uint64) {
	n.epoch = epoch
	n.askingAs.Sign(req, epoch)
}

func (askingAs) Check(*http.Response) (again bool, err error) { return false, nil }

type testRecorder struct{ began, closed atomic.Int32 }

func (r *testRecorder) Init(body *millrace.Chain)                    { body.Release() }
func (r *testRecorder) Add(_ mp4.FragmentInfo, body *millrace.Chain) { body.Release() }
func (r *testRecorder) Close()                                       { r.closed.Add(1) }

// An invalid or malicious response of an owner ends the pull, costs no more memory than the
// received bytes, and does not reach the stream.
func TestHostileOwners(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
	tag := func(p string) string { return string(chunked([]byte(p))) }
	ok := head + "Millrace-Epoch: 7\r\n\r\n"
	header := tag("FLV\x01\x05\x00\x00\x00\x09\x00\x00\x00\x00")
	for name, tt := range map[string]struct{ answer, says string }{
		"another status": {"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n",
			"421"},
		"a status of 100":     {"HTTP/1.1 100 Continue\r\n\r\n", "100"},
		"a status of nothing": {"HTTP/1.1 -1 x\r\n\r\n", "malformed"},
		"no HTTP":             {"SSH-2.0-x\r\n\r\n", "malformed"},
		"no epoch":            {head + "\r\n", "not that of a node"},
		"an epoch of zero":    {head + "Millrace-Epoch: 0\r\n\r\n", "not that of a node"},
		"an epoch of words":   {head + "Millrace-Epoch: x\r\n\r\n", "not that of a node"},
		"an earlier epoch":    {head + "Millrace-Epoch: 4\r\n\r\n", "later owner"},
		"a length": {strings.Replace(ok, "Transfer-Encoding: chunked",
			"Content-Length: 9", 1), "that of a node"},
		"no end of the head": {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 1<<16),
			"the owner's answer"},
		"a line without an end": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 1<<20), "EOF"},
		"nothing":               {"", "EOF"},
		"a head cut off":        {ok[:30], "the owner's answer"},
		"no body":               {ok, "EOF"},
		"an empty body":         {ok + "0\r\n\r\n", "empty"},
		"garbage for a chunk":   {ok + "zz\r\n", "chunk"},
		"a chunk without end":   {ok + strings.Repeat("1", 1<<16), "line too long"},
		"a chunk too large":     {ok + "fffffffffffffffff\r\n", "chunk"},
		"a large chunk":         {ok + "ffffffffffffff\r\nFLV\x01", "EOF"},
		"a tag too large": {ok + header + tag("\x09\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00"),
			"MaxTag"},
		"a tag of a size": {ok + header + tag("\x09\x3f\xff\xff\x00\x00\x00\x00\x00\x00\x00"),
			"EOF"},
		"silence in the head": {"HTTP/1.1 200 OK\r\n...", "timeout"},
		"silence in a chunk":  {ok + "...", "--publish-timeout"},
	} {
		for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, latency %v", name, latency), func(t *testing.T) {
				f := serve(t, func(c *live.Config) {
					c.PublishTimeout, c.Latency = 200*time.Millisecond, latency
				})
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer ln.Close()
				over := make(chan struct{})
				go func() {
					defer close(over)
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					defer conn.Close()
					answer, silent := strings.CutSuffix(tt.answer, "...")
					var p [512]byte
					_, _ = conn.Read(p[:])
					_, _ = io.WriteString(conn, answer)
					if silent {
						_, _ = io.Copy(io.Discard, conn)
					}
				}()
				before := millrace.DefaultPool().Stats().InUse
				err = live.NewPeers(f.Hub).Pull(t.Context(), "cam",
					live.Owner{Node: "http://" + ln.Addr().String(), Epoch: 5})
				if err == nil || !strings.Contains(err.Error(), tt.says) && !isReset(err) {
					t.Errorf("%v, want %s", err, tt.says)
				}
				<-over
				eventually(t, "the end of the stream", func() bool { return f.Count() == 0 })
				if after := millrace.DefaultPool().Stats().InUse; after > before+1<<20 {
					t.Errorf("%d bytes more in use", after-before)
				}
			})
		}
	}
}

// If a pull is ended just when the owner disconnects, only the pull fails.
func TestPullThatEndsAsTheOwnerHangsUp(t *testing.T) {
	f := serve(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for i := range 1000 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			conn, err := ln.Accept()
			if err == nil {
				_, _ = conn.Read(make([]byte, 1))
				cancel()
				time.Sleep(time.Duration(i%200) * time.Microsecond)
				_ = conn.Close()
			}
		}()
		if err := live.NewPeers(f.Hub).Pull(ctx, "cam",
			live.Owner{Node: "http://" + ln.Addr().String(), Epoch: 5}); err == nil {
			t.Error("a stream was pulled")
		}
		cancel()
	}
}

// Pulls that are not needed, or with an invalid name or address, fail.
func TestPullsThatAreRefused(t *testing.T) {
	d := newTestDirectory()
	d.epoch = 10
	owner, other := d.node(t, nil), d.node(t, nil)
	sc := newScript(1, 3, 500)
	p := owner.Publisher("cam")
	p.Send(sc.whole())
	owner.published("cam", len(sc.whole())-len(sc.header))
	q := other.Publisher("cam") // this publisher takes over
	q.Send(sc.whole())
	p.Wait()
	header := askingAs("http://x")
	if err := live.NewPeers(other.Hub).Pull(t.Context(), "cam",
		live.Owner{Node: other.via, Epoch: 12, Proof: header}); err != live.ErrFed {
		t.Errorf("of an own stream: %v", err)
	}
	if err := live.NewPeers(owner.Hub).Pull(t.Context(), "cam",
		live.Owner{Node: other.via, Epoch: 13, Proof: header}); err != live.ErrStale {
		t.Errorf("from an owner before the one that is known: %v", err)
	}
	if err := live.NewPeers(other.Hub).Pull(t.Context(), "a/b",
		live.Owner{Node: owner.via, Epoch: 0, Proof: header}); err == nil {
		t.Error("a bad name")
	}
	if err := live.NewPeers(other.Hub).Pull(t.Context(), "new",
		live.Owner{Node: "ftp://x", Epoch: 0, Proof: header}); err == nil {
		t.Error("a bad address")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	if err := live.NewPeers(other.Hub).Pull(ctx, "new",
		live.Owner{Node: owner.via, Epoch: 0, Proof: header}); err != io.ErrClosedPipe {
		t.Errorf("with a context that has ended: %v", err)
	}
	// The owner does not know of a newer owner yet, and the requesting node knows of neither.
	past := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(live.EpochHeader, "1")
		w.(http.Flusher).Flush()
	}))
	defer past.Close()
	note := &epochNote{askingAs: header}
	if err := live.NewPeers(owner.Hub).Pull(t.Context(), "cam",
		live.Owner{Node: past.URL, Epoch: 1, Proof: note}); err != live.ErrStale || note.epoch != 11 {
		t.Errorf("from an owner of the past, which was asked for epoch %d: %v", note.epoch, err)
	}
	q.End()
}

// A viewer is told that the owner of a stream does not answer, which differs from a missing stream.
func TestOwnerThatCannotBeReached(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{false, true} {
		d := newTestDirectory()
		owner := d.node(t, nil)
		edge := d.node(t, func(c *live.Config) { c.ViewerWait = live.PullWait })
		p := owner.Publisher("cam")
		p.Send(newScript(1, 3, 500).whole())
		eventually(t, "the owner", func() bool { return d.owner("cam") != nil })
		if answers { // but has released the stream
			owner.via = edge.via
		} else {
			owner.via = "http://127.0.0.1:1" // an address without a listener
		}
		err := edge.AwaitStream(t.Context(), "cam")
		var refused *refuse.Refusal
		if !errors.As(err, &refused) || (refused.Status == 503) != !answers ||
			(refused.RetryAfter > 0) != !answers {
			t.Errorf("answers %v: %#v, want 503 with a time to retry only if the owner does not "+
				"answer", answers, err)
		}
		p.End()
	}
}

// A viewer is told whether the stream does not exist, or whether that could not be determined.
func TestViewersOfNoStream(t *testing.T) {
	t.Parallel()
	d := newTestDirectory()
	n := d.node(t, func(c *live.Config) { c.ViewerWait = 10 * time.Millisecond })
	for _, away := range []bool{false, true} {
		d.away.Store(away)
		err := n.AwaitStream(t.Context(), "none")
		var refused *refuse.Refusal
		if !errors.As(err, &refused) || (refused.Status == 503) != away ||
			(refused.RetryAfter > 0) != away {
			t.Errorf("away %v: %#v, want 503 with a time to retry only if the directory is away",
				away, err)
		}
	}
}

// Claims, losses and pulls of the same names at the same time leave at most one owner, and nothing
// else.
func TestPublishersMoveAtRandom(t *testing.T) {
	d := newTestDirectory()
	var nodes []*testNode
	for range 3 {
		n := d.node(t, func(c *live.Config) { c.PublisherReturn = 50 * time.Millisecond })
		n.SetPullIdle(20 * time.Millisecond)
		nodes = append(nodes, n)
	}
	sc := newScript(2, 3, 200)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 7))
			for range 30 {
				n := nodes[rnd.IntN(3)]
				p, err := n.Open("cam", "test", live.Terms{})
				if err != nil {
					continue
				}
				_ = p.Run(func() error { return p.ReadBody(readerFunc(pacedBytes(sc.whole()))) })
				p.Answered()
			}
		})
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 8))
			for range 10 {
				w := nodes[rnd.IntN(3)].Ask("/live/cam", 0)
				_ = w.Conn.SetReadDeadline(
					time.Now().Add(time.Duration(rnd.IntN(100)) * time.Millisecond))
				_, _ = io.Copy(io.Discard, w.R)
				_ = w.Conn.Close()
			}
		})
	}
	all.Wait()
	eventually(t, "the end of all streams", func() bool {
		for _, n := range nodes {
			n.mu.Lock()
			busy := n.Count() > 0
			n.mu.Unlock()
			if busy {
				return false
			}
		}
		return d.owner("cam") == nil
	})
}

// pacedBytes reads p slowly.
func pacedBytes(p []byte) func([]byte) (int, error) {
	r := bytes.NewReader(p)
	return func(p []byte) (int, error) {
		time.Sleep(2 * time.Millisecond)
		return r.Read(p[:min(len(p), 300)])
	}
}

// A node without room for a stream does not pull it from its owner.
func TestFullNodePullsNoStream(t *testing.T) {
	t.Parallel()
	d := newTestDirectory()
	owner := d.node(t, nil)
	full := d.node(t, func(c *live.Config) { c.MaxStreams, c.ViewerWait = 1, time.Second })
	p := owner.publish(newScript(1, 3, 500), 0)
	other := full.Publisher("other")
	other.Send(newScript(1, 3, 500).whole())
	eventually(t, "the other stream", func() bool { return full.LookUp("other") != nil })
	if res := full.Publisher("cam").Wait(); res.Status != http.StatusServiceUnavailable {
		t.Errorf("a publisher that there is no room for: %d %s", res.Status, res.Body)
	}
	if _, ok := owner.Owns("cam"); !ok {
		t.Error("the owner has lost the stream")
	}
	// A viewer at this node is told where the stream is.
	err := full.AwaitStream(t.Context(), "cam")
	var refused *refuse.Refusal
	if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable {
		t.Errorf("a viewer of a stream that there is no room for: %v", err)
	}
	p.End()
	other.End()
}

// A publisher connects to a stream whose lease was lost, before this node knows that. Everything
// under the old lease ends with it.
func TestAPublisherWithANewLease(t *testing.T) {
	d := newTestDirectory()
	n := d.node(t, func(c *live.Config) {
		c.HLS = hlslive.Config{Part: 100 * time.Millisecond, Segment: time.Second, Segments: 4,
			MaxBytes: 1 << 20}
	})
	sc := newScript(4, 10, 500)
	p := n.publish(sc, 0)
	if _, err := live.NewHLS(n.Hub).Master(t.Context(), "cam"); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	n.waits("cam")
	d.owner("cam").Release()
	q := n.publish(sc, 0)
	eventually(t, "the stream with another lease",
		func() bool { epoch, _ := n.Owns("cam"); return epoch == 2 })
	live.NewPeers(n.Hub).Lost("cam", 1)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if _, err := live.NewHLS(n.Hub).Master(ctx, "cam"); err != nil {
		t.Errorf("HLS of the stream with another lease: %v", err)
	}
	q.End()
}
