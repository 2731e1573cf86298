package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/server/internal/live"
)

const (
	streams = 5
	nodes   = 3
	lease   = 3 * time.Second
	// recovery is how long the cluster may take after the faults until it serves every stream.
	recovery = lease + 2*time.Second
	// hlsLatency is longer than a frame takes from its publisher to an HLS player.
	hlsLatency = 7 * time.Second
)

// phases are the times of a history in which faults happen. Each ends at to. The history then
// continues without faults until end, or longer if a fault ends late.
var phases = []struct{ from, to, end time.Duration }{
	{4 * time.Second, 21 * time.Second, 28 * time.Second},
	{29 * time.Second, 47 * time.Second, 60 * time.Second},
}

// endsFor is the time at the end of a history in which the streams have ended. Players must get
// their last playlists.
const endsFor = 4 * time.Second

// A world has the network, the nodes and the clients of one history.
type world struct {
	seed   uint64
	book   *logBook
	check  *Check
	net    *Network
	redis  *Redis
	nodes  []*Node
	names  []string       // the hosts of the nodes
	events map[string]int // number of faults and other events, by name
	stored bool           // segments are stored in Redis

	takeover live.Takeover

	viewers []*viewer
	players []*player

	mu          sync.Mutex
	quiet       chan struct{} // closed while there are no faults
	ending      atomic.Bool   // the encoders end their streams and do not come back
	disturbance []disturbance
}

// A disturbance is a time in which a node may not answer. Redis has the name "redis", connections
// between nodes have the name "between nodes". Unless a node has only lost Redis, there is a second
// disturbance with its name and the suffix itself.
type disturbance struct {
	node     string
	from, to time.Time // to is zero until the disturbance has ended
}

// untilCalm returns a channel that is closed when the faults are over.
func (w *world) untilCalm() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quiet
}

// calm reports whether the faults are over.
func (w *world) calm() bool {
	select {
	case <-w.untilCalm():
		return true
	default:
		return false
	}
}

func (w *world) setCalm(calm bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if calm {
		close(w.quiet)
	} else {
		w.quiet = make(chan struct{})
	}
}

// pause waits for a time, but no longer than until the faults are over.
func (w *world) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	quiet := w.untilCalm()
	if w.calm() {
		quiet = nil
	}
	select {
	case <-timer.C:
	case <-quiet:
	case <-ctx.Done():
	}
}

// disturb records that a fault affects a node. The caller calls the result when the fault is over.
func (w *world) disturb(node string) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.disturbance)
	w.disturbance = append(w.disturbance, disturbance{node: node, from: time.Now()})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.disturbance[i].to = time.Now()
	}
}

// disturbed reports whether a fault has affected a node since a time.
func (w *world) disturbed(node string, since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.disturbance {
		if d.node == node && (d.to.IsZero() || d.to.After(since)) {
			return true
		}
	}
	return false
}

// anyDisturbed reports whether any fault has affected the cluster since a time.
func (w *world) anyDisturbed(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.disturbance, func(d disturbance) bool {
		return d.to.IsZero() || d.to.After(since)
	})
}

// disturbedBetween reports whether a fault of a node has begun in a span of time.
func (w *world) disturbedBetween(from, to time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.disturbance, func(d disturbance) bool {
		return slices.Contains(w.names, d.node) && !d.from.Before(from) && d.from.Before(to)
	})
}

const itself = " itself"

// A Result says how a history went.
type Result struct {
	Seed     uint64
	Failures []string
	Counts   Counts
	Events   map[string]int // number of faults and other events, by name
	Trace    []string
}

// Play plays the history of a seed. It must run in a bubble of synctest.
func Play(seed uint64) *Result {
	random := rand.New(rand.NewPCG(seed, 1))
	w := &world{seed: seed, book: &logBook{start: time.Now()}, events: make(map[string]int),
		quiet: make(chan struct{})}
	w.check = newCheck(w.book)
	w.net = NewNetwork(part(seed, 2))
	w.redis = NewRedis(w.net, part(seed, 3))
	w.redis.Observe = w.check.ownerChanged
	w.redis.skew = time.Duration(random.IntN(4000)-2000) * time.Millisecond
	w.takeover = []live.Takeover{live.TakeoverAlways, live.TakeoverAlways, live.TakeoverStalled,
		live.TakeoverNever}[random.IntN(4)]
	w.check.disturbed = func(address string, since, itselfSince time.Time) bool {
		return w.disturbed("redis", since) || slices.ContainsFunc(w.names, func(name string) bool {
			return addressOf(name) == address && (w.disturbed(name, since) ||
				w.disturbed(name+itself, itselfSince))
		})
	}
	w.check.silentOwners = w.takeover == live.TakeoverNever
	w.stored = random.IntN(2) == 0
	w.book.addf("world", "seed %d, takeover %s, segments stored: %v, Redis ahead by %v", seed,
		w.takeover, w.stored, w.redis.skew)
	for i := range nodes {
		name := fmt.Sprint("n", i+1)
		n := NewNode(w.net.Host(name), NodeConfig{Lease: lease, Takeover: w.takeover, Segments: w.stored,
			Skew: time.Duration(random.IntN(3000)-1500) * time.Millisecond}, w.book)
		if err := n.Start(); err != nil {
			w.check.fail("%s: %v", name, err)
			break
		}
		w.nodes, w.names = append(w.nodes, n), append(w.names, name)
	}
	w.play(random)
	failures, counts := w.check.result()
	w.events["a stream ends"] = counts.Ends
	return &Result{Seed: seed, Failures: failures, Counts: counts, Events: w.events,
		Trace: w.book.lines}
}

// part returns a generator for one part of a history, so that a change of one part does not change
// the others.
func part(seed, which uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, which)) }

func (w *world) play(random *rand.Rand) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var clients sync.WaitGroup
	encoders, players := w.net.AlertHost("encoder").Start(), w.net.AlertHost("player").Start()
	for i := range streams {
		p := &publisher{world: w, stream: i, random: part(w.seed, uint64(100+i)), client: encoders,
			rtmp: i%2 == 0, hesitations: part(w.seed, uint64(400+i))}
		clients.Go(func() { p.run(ctx) })
		if i < 2 {
			extra := &publisher{world: w, stream: i, random: part(w.seed, uint64(200+i)),
				client: encoders, rtmp: i%2 == 1, extra: true,
				hesitations: part(w.seed, uint64(500+i))}
			clients.Go(func() { extra.run(ctx) })
		}
		for j, node := range w.names {
			for k := range 2 {
				if k == 1 && i == 0 {
					continue // a player instead
				}
				name := fmt.Sprintf("v%d%s%d", i, node, k)
				v := &viewer{world: w, name: name, stream: fmt.Sprint("s", i), node: node, rtmp: k == 1,
					leaves: i >= 3,
					random: part(w.seed, uint64(1000+100*i+10*j+k)), client: players}
				w.viewers = append(w.viewers, v)
				clients.Go(func() { v.run(ctx) })
			}
		}
	}
	for i := range 4 {
		p := &player{world: w, name: fmt.Sprint("hls", i), stream: fmt.Sprint("s", i/2),
			random: part(w.seed, uint64(300+i)), client: players, roams: i%2 == 0,
			node: w.names[i%len(w.names)]}
		w.players = append(w.players, p)
		clients.Go(func() { p.run(ctx) })
	}
	clients.Go(func() { w.watchOver(ctx) })
	for _, p := range phases {
		time.Sleep(time.Until(w.book.start.Add(p.from)))
		w.setCalm(false)
		w.check.setCalm(false)
		w.disrupt(random, p.to)
		w.judge(p.end)
	}
	w.book.add("world", "the encoders end")
	w.check.setCalm(false)
	w.ending.Store(true)
	time.Sleep(endsFor)
	cancel()
	clients.Wait()
	for _, n := range w.nodes {
		n.Stop()
	}
	began := time.Now()
	for _, n := range w.nodes {
		n.Await()
	}
	if took := time.Since(began); took > 30*time.Second {
		w.check.fail("the nodes took %v to end", took)
	}
	w.redis.mu.Lock()
	for key, v := range w.redis.keys {
		if v.expires.IsZero() {
			w.check.fail("the key %s of Redis does not expire", key)
		}
	}
	w.redis.mu.Unlock()
	w.redis.Stop()
	time.Sleep(time.Minute) // goroutines and blocks that are left now are left for ever
}

// judge checks that everything works once the faults are over, until a time after the start.
func (w *world) judge(until time.Duration) {
	w.setCalm(true)
	w.book.add("world", "the faults are over")
	began := time.Now()
	time.Sleep(recovery)
	w.check.setCalm(true)
	w.judgeServed()
	time.Sleep(time.Until(w.book.start.Add(until)))
	w.judgeServed()
	if time.Since(began) < recovery+hlsLatency {
		return
	}
	for _, p := range w.players {
		if late := w.lateness(&p.newest); late > hlsLatency {
			w.check.fail("%s: %s is not played, the newest frame is %v old", p.name, p.stream, late)
		}
	}
}

// watchOver checks, also while there are faults, that viewers get fresh frames. It returns when ctx
// ends. A node serves its own publisher's stream whatever happens elsewhere. It serves the stream
// of another node if no fault affects the two nodes and Redis.
func (w *world) watchOver(ctx context.Context) {
	unaffected := func(node string, d time.Duration) bool {
		return !w.disturbed(node, time.Now().Add(-d))
	}
	for ; ctx.Err() == nil; wait(ctx, 500*time.Millisecond) {
		w.judgeLeases()
		for _, v := range w.viewers {
			owner, since := w.check.publishing(v.stream)
			settle := recovery
			if owner != v.node {
				settle += 3 * time.Second
			}
			served := owner != "" && time.Since(since) > settle && v.watchesFor() > settle &&
				unaffected(owner, settle) && (owner == v.node ||
				unaffected(v.node, settle) && unaffected("redis", settle))
			if late := w.lateness(&v.newest); served && late > 3*time.Second && !v.reported {
				v.reported = true
				w.check.fail("%s: %s of %s is not served at %s, the newest frame is %v old", v.name,
					v.stream, owner, v.node, late)
			}
		}
	}
}

// judgeLeases checks that a node renews each lease that it has according to Redis, every third of a
// lease, or gives up the stream.
func (w *world) judgeLeases() {
	const renewal = 2 * lease / 3 // the second attempt, if the first one began during a failure
	now := time.Now()
	if w.disturbed("redis", now.Add(-renewal)) {
		return
	}
	for stream, l := range w.redis.Leases() {
		i := slices.IndexFunc(w.names, func(name string) bool { return addressOf(name) == l.node })
		// A renewal of a process that has died may reach a slow Redis up to claimTime later.
		if l.left > 0 && l.left < lease-renewal &&
			!w.disturbed(w.names[i], now.Add(-lease-claimTime)) {
			w.check.fail("%s does not renew its lease of %s, of which %v are left", w.names[i],
				stream, l.left)
		}
	}
}

// lateness returns how old the newest frame of a viewer or player is.
func (w *world) lateness(newest *atomic.Int64) time.Duration {
	return time.Since(w.book.start) - time.Duration(newest.Load())*time.Millisecond
}

// judgeServed checks that every viewer gets fresh frames.
func (w *world) judgeServed() {
	for _, v := range w.viewers {
		if late := w.lateness(&v.newest); late > 2*time.Second {
			w.check.fail("%s: %s is not served at %s, the newest frame is %v old", v.name, v.stream,
				v.node, late)
		}
	}
}
