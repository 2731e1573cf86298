package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/redis/go-redis/v9"
)

const (
	nodeA = "http://a:1"
	nodeB = "http://b:1"
)

// openServer opens a directory in a server. Its leases do not end during a test.
func openServer(t *testing.T, s *redistest.Server) *Redis {
	return openRedis(t, "redis://"+s.Addr(), time.Hour)
}

// prefixes has a different prefix for each run of a test.
var prefixes sync.Map

func openRedis(t *testing.T, address string, lease time.Duration) *Redis {
	t.Helper()
	run, _ := prefixes.LoadOrStore(t, fmt.Sprint(t.Name(), " ", time.Now().UnixNano()))
	d, err := OpenRedis(RedisConfig{Address: address,
		Prefix: strings.ReplaceAll(run.(string), " ", "-") + ":", Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestOpenRedis(t *testing.T) {
	if _, err := OpenRedis(RedisConfig{Address: "redis://h:1", Prefix: "{p}", Lease: time.Second}); err == nil {
		t.Error("a prefix with braces")
	}
	if _, err := OpenRedis(RedisConfig{Address: "http://h:1", Prefix: "p", Lease: time.Second}); err == nil {
		t.Error("an address of another protocol")
	}
	for _, address := range []string{"redis://h:1", "redis://h:1?master_name=m",
		"redis+cluster://h:1"} {
		d, err := OpenRedis(RedisConfig{Address: address, Prefix: "p:", Lease: 4 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var times [3]time.Duration
		var byContext bool
		switch c := d.rdb.(type) {
		case *redis.ClusterClient:
			o := c.Options()
			times, byContext = [3]time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout},
				o.ContextTimeoutEnabled
		case *redis.Client:
			o := c.Options()
			times, byContext = [3]time.Duration{o.DialTimeout, o.ReadTimeout, o.WriteTimeout},
				o.ContextTimeoutEnabled
		}
		if times != [3]time.Duration{time.Second, time.Second, time.Second} || !byContext {
			t.Errorf("%s: timeouts %v, by context: %v", address, times, byContext)
		}
	}
}

// A stored is the content of a stream's hash. Ages are times before now. The end of a lease may be
// in the future.
type stored struct {
	epoch, node string
	ended       bool
	silent      time.Duration
	away        bool
}

// store writes the hash of a stream.
func (d *Redis) store(t *testing.T, stream string, s stored) {
	t.Helper()
	now := d.rdb.Time(t.Context()).Val().UnixMilli()
	until := now + time.Hour.Milliseconds()
	if s.ended {
		until = now - 1
	}
	fields := []any{"epoch", s.epoch, "until", until, "heard", now - s.silent.Milliseconds(),
		"away", s.away}
	if s.node != "" {
		fields = append(fields, "node", s.node)
	}
	if err := d.rdb.HSet(t.Context(), d.key(stream), fields...).Err(); err != nil {
		t.Fatal(err)
	}
}

// The effect of the scripts in each state.
func TestScripts(t *testing.T) {
	s := redistest.Shared(t)
	d := openServer(t, s)
	const future = "8000000000000000" // after any clock
	for i, tt := range []struct {
		name   string
		stored *stored // nil: no hash
		claim  *Claim  // of node A; nil: a renewal
		renew  *Ownership
		refuse bool   // with TakenError or ErrLost
		owner  string // the owner after the call
		epoch  uint64 // the epoch after the call; 0: from the clock
		event  string // the published event; EPOCH stands for the new epoch
	}{
		{name: "claim of a free stream", claim: &Claim{Takeover: never}, owner: nodeA,
			event: nodeA + " EPOCH S"},
		{name: "claim that has seen a later epoch",
			claim: &Claim{Takeover: never, Seen: 8000000000000000},
			owner: nodeA, epoch: 8000000000000001, event: nodeA + " EPOCH S"},
		{name: "claim after a later epoch", claim: &Claim{Takeover: always},
			stored: &stored{epoch: future, node: nodeB},
			owner:  nodeA, epoch: 8000000000000001, event: nodeA + " EPOCH S"},
		{name: "claim after a later epoch that was given up", claim: &Claim{Takeover: never},
			stored: &stored{epoch: future},
			owner:  nodeA, epoch: 8000000000000001, event: nodeA + " EPOCH S"},
		{name: "claim of what is its own", claim: &Claim{Takeover: never},
			stored: &stored{epoch: future, node: nodeA},
			owner:  nodeA, epoch: 8000000000000001, event: nodeA + " EPOCH S"},
		{name: "never", claim: &Claim{Takeover: never},
			stored: &stored{epoch: "7", node: nodeB, silent: time.Hour},
			refuse: true, owner: nodeB, epoch: 7},
		{name: "never, and it is away", claim: &Claim{Takeover: never},
			stored: &stored{epoch: "7", node: nodeB, away: true},
			owner:  nodeA, event: nodeA + " EPOCH S"},
		{name: "never, and the lease has ended", claim: &Claim{Takeover: never},
			stored: &stored{epoch: "7", node: nodeB, ended: true},
			owner:  nodeA, event: nodeA + " EPOCH S"},
		{name: "stalled, and it is not", claim: &Claim{Takeover: stalled},
			stored: &stored{epoch: "7", node: nodeB},
			refuse: true, owner: nodeB, epoch: 7},
		{name: "stalled, and it is", claim: &Claim{Takeover: stalled},
			stored: &stored{epoch: "7", node: nodeB, silent: live.StalledAfter},
			owner:  nodeA, event: nodeA + " EPOCH S"},
		{name: "stalled, and it is away", claim: &Claim{Takeover: stalled},
			stored: &stored{epoch: "7", node: nodeB, away: true},
			owner:  nodeA, event: nodeA + " EPOCH S"},

		{name: "renew", renew: &Ownership{Epoch: 7}, stored: &stored{epoch: "7", node: nodeA},
			owner: nodeA, epoch: 7},
		{name: "renew what has ended", renew: &Ownership{Epoch: 7},
			stored: &stored{epoch: "7", node: nodeA, ended: true},
			owner:  nodeA, epoch: 7},
		{name: "renew what was lost with all data", renew: &Ownership{Epoch: 7}, owner: nodeA,
			epoch: 7, event: nodeA + " 7 S"},
		{name: "renew what is known in part", renew: &Ownership{Epoch: 7},
			stored: &stored{epoch: "6", node: nodeB},
			owner:  nodeA, epoch: 7, event: nodeA + " 7 S"},
		{name: "renew what another has", renew: &Ownership{Epoch: 7},
			stored: &stored{epoch: "8", node: nodeB},
			refuse: true, owner: nodeB, epoch: 8},
		{name: "renew what another had", renew: &Ownership{Epoch: 7},
			stored: &stored{epoch: "8", node: nodeB, ended: true}, refuse: true},
		{name: "renew what another has given up", renew: &Ownership{Epoch: 7},
			stored: &stored{epoch: "8"}, refuse: true},
		{name: "renew what it has given up", renew: &Ownership{Epoch: 7},
			stored: &stored{epoch: "7"}, refuse: true},
		{name: "renew what it owns with a later epoch", renew: &Ownership{Epoch: 7},
			stored: &stored{epoch: "8", node: nodeA},
			refuse: true, owner: nodeA, epoch: 8},
		{name: "epochs that a float32 or 14 digits do not hold",
			renew:  &Ownership{Epoch: 7999999999999999},
			stored: &stored{epoch: future, node: nodeB}, refuse: true, owner: nodeB,
			epoch: 8000000000000000},

		{name: "give up", renew: &Ownership{Epoch: 7, GiveUp: true},
			stored: &stored{epoch: "7", node: nodeA}, event: nodeA + " 0 S"},
		{name: "give up what another has", renew: &Ownership{Epoch: 7, GiveUp: true},
			stored: &stored{epoch: "8", node: nodeB},
			refuse: true, owner: nodeB, epoch: 8},
		{name: "give up what is another's by an older epoch",
			renew:  &Ownership{Epoch: 7, GiveUp: true},
			stored: &stored{epoch: "6", node: nodeB}, owner: nodeB, epoch: 6},
		{name: "give up what is not known", renew: &Ownership{Epoch: 7, GiveUp: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stream := fmt.Sprint("s", i)
			if tt.stored != nil {
				d.store(t, stream, *tt.stored)
			}
			sub := d.rdb.Subscribe(t.Context(), d.channel)
			defer sub.Close()
			if _, err := sub.Receive(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := uint64(d.rdb.Time(t.Context()).Val().UnixMicro())
			var epoch uint64
			var err error
			if c := tt.claim; c != nil {
				c.Stream, c.Node = stream, nodeA
				epoch, err = d.Claim(t.Context(), *c)
				var taken *TakenError
				if refused := errors.As(err, &taken); refused != tt.refuse || !refused &&
					err != nil {
					t.Fatalf("a claim over epoch %v: %v", epoch, err)
				}
				if tt.refuse && taken.Owner != (Owner{tt.owner, tt.epoch}) {
					t.Errorf("the claim was refused for %v, want the owner that is there",
						taken.Owner)
				}
				if !tt.refuse && tt.epoch == 0 && epoch < before {
					t.Errorf("epoch %d, and the clock was %d", epoch, before)
				}
			} else {
				tt.renew.Stream = stream
				errs, err := d.Renew(t.Context(), nodeA, *tt.renew)
				if err != nil || len(errs) != 1 || (errs[0] == ErrLost) != tt.refuse ||
					!tt.refuse && errs[0] != nil {
					t.Fatalf("renewing: %v, %v, want ErrLost only for another owner's stream", errs,
						err)
				}
			}
			o, err := d.Lookup(t.Context(), stream)
			if o.Node != tt.owner || (tt.owner == "") != (err == ErrNoOwner) {
				t.Errorf("then the owner is %v, %v", o, err)
			}
			if want := max(tt.epoch, epoch); o.Epoch != want || tt.epoch != 0 && want != tt.epoch {
				t.Errorf("then the epoch is %d, want %d or %d", o.Epoch, tt.epoch, epoch)
			}
			d.rdb.Publish(t.Context(), d.channel, "end")
			var events []string
			for {
				m, err := sub.ReceiveMessage(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if m.Payload == "end" {
					break
				}
				events = append(events, m.Payload)
			}
			var want []string
			if tt.renew != nil {
				want = append(want, nodeA)
			}
			if tt.event != "" {
				event := strings.NewReplacer("EPOCH", fmt.Sprint(o.Epoch), "S",
					stream).Replace(tt.event)
				if tt.claim != nil {
					want = append(want, event)
				} else if got := strings.Join(events, ","); strings.HasPrefix(got, nodeA+",") {
					want = append(want, event)
				} else {
					want = []string{event, nodeA}
				}
			}
			if !reflect.DeepEqual(events, want) {
				t.Errorf("events %q, want %q", events, want)
			}
			if left := d.rdb.PTTL(t.Context(), d.key(stream)).Val(); (tt.claim != nil ||
				!tt.renew.GiveUp) && !tt.refuse &&
				(left <= time.Hour || left > 2*time.Hour) {
				t.Errorf("the key has %v", left)
			}
		})
	}
}

// A lease expires unless it is renewed.
func TestLeaseEnds(t *testing.T) {
	d := openRedis(t, "redis://"+redistest.Shared(t).Addr(), 50*time.Millisecond)
	d2 := openRedis(t, "redis://"+redistest.Shared(t).Addr(), time.Hour)
	for _, d := range []*Redis{d, d2} {
		if _, err := d.Claim(t.Context(), Claim{Stream: fmt.Sprint(d.lease), Node: nodeA,
			Takeover: never}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the lease to end", func() bool {
		_, err := d.Lookup(t.Context(), "50ms")
		return err == ErrNoOwner
	})
	if _, err := d.Lookup(t.Context(), "1h0m0s"); err != nil {
		t.Error(err)
	}
}

// If two nodes claim at the same time, one wins.
func TestClaimsAtOnce(t *testing.T) {
	rounds := 10_000
	if testing.Short() {
		rounds = 1000
	}
	s := redistest.Shared(t)
	a, b := openServer(t, s), openServer(t, s)
	for i := range rounds {
		stream := fmt.Sprint("s", i)
		var won [2]uint64
		var errs [2]error
		var both sync.WaitGroup
		for j, d := range []*Redis{a, b} {
			both.Go(func() {
				won[j], errs[j] = d.Claim(context.Background(),
					Claim{Stream: stream, Node: []string{nodeA, nodeB}[j], Takeover: never})
			})
		}
		both.Wait()
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		var taken *TakenError
		owner := Owner{[]string{nodeA, nodeB}[winner], won[winner]}
		if errs[winner] != nil || !errors.As(errs[1-winner], &taken) || taken.Owner != owner {
			t.Fatalf("round %d: %v %v, want one winner, and its name in the other's error", i, won,
				errs)
		}
		if got, err := a.Lookup(t.Context(), stream); err != nil || got != owner {
			t.Fatalf("round %d: %v, %v; want %v", i, got, err, owner)
		}
	}
}

// Invalid answers are errors, and so is a key of another program.
func TestInvalidAnswers(t *testing.T) {
	for _, answer := range []string{
		"*0\r\n", "*1\r\n$1\r\nx\r\n", "*2\r\n$1\r\n1\r\n$1\r\nx\r\n",
		"*3\r\n$1\r\n1\r\n$1\r\nx\r\n$1\r\nx\r\n",
		"*1\r\n$16\r\n9007199254740992\r\n", ":1\r\n", "$-1\r\n", "-ERR x\r\n",
	} {
		h := redistest.StartHostile(t)
		h.Always(redistest.Say(answer))
		d := openRedis(t, "redis://"+h.Addr(), time.Second)
		var taken *TakenError
		if _, err := d.Claim(t.Context(), Claim{Stream: "s", Node: nodeA}); err == nil ||
			errors.As(err, &taken) {
			t.Errorf("%q: claim: %v, want an error about the answer", answer, err)
		}
		if o, err := d.Lookup(t.Context(), "s"); err == nil || err == ErrNoOwner &&
			answer != "*0\r\n" {
			t.Errorf("%q: lookup: %v, %v, want an error about the answer", answer, o, err)
		}
	}
	d := openServer(t, redistest.Shared(t))
	d.rdb.Set(t.Context(), d.key("s"), "of another program", 0)
	if _, err := d.Lookup(t.Context(), "s"); err == nil || err == ErrNoOwner {
		t.Error(err)
	}
	if errs, err := d.Renew(t.Context(), nodeA, Ownership{Stream: "s", Epoch: 1},
		Ownership{Stream: "t", Epoch: 1}); err != nil ||
		errs[0] == nil || errs[0] == ErrLost || errs[1] != nil {
		t.Error(errs, err)
	}
}

// A node of a Redis Cluster that is used like a single server counts as not answering, for every
// stream. Otherwise the log would alternate between streams.
func TestShardedRedis(t *testing.T) {
	h := redistest.StartHostile(t)
	d := openRedis(t, "redis://"+h.Addr(), time.Minute)
	h.Always(redistest.Say("-MOVED 1 127.0.0.1:1\r\n"))
	if _, err := d.Lookup(t.Context(), "s"); err != errSharded {
		t.Error(err)
	}
	h.Always(redistest.Say("*0\r\n"))
	if _, err := d.Lookup(t.Context(), "t"); err != errSharded {
		t.Error(err)
	}
	if _, err := d.Claim(t.Context(), Claim{Stream: "t", Node: nodeA}); err != errSharded {
		t.Error(err)
	}
	if errs, err := d.Renew(t.Context(), nodeA,
		Ownership{Stream: "t", Epoch: 1}); err != errSharded || errs[0] != errSharded {
		t.Error(errs, err)
	}
}

// A directory that refuses this node's password counts as not answering.
func TestWrongPassword(t *testing.T) {
	s := redistest.Start(t, redistest.Password("right"))
	d, err := OpenRedis(RedisConfig{Address: "redis://" + s.Addr(), Password: "wrong", Prefix: "p:",
		Lease: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	errs, err := d.Renew(t.Context(), nodeA, Ownership{Stream: "s", Epoch: 1})
	if err == nil || errs[0] == nil || errs[0] == ErrLost {
		t.Error(errs, err)
	}
}

// A watcher gets the events. When its connection is cut, it learns that events may be missing.
func TestWatch(t *testing.T) {
	s := redistest.Start(t)
	p := s.Proxy(t)
	d, through := openServer(t, s), openRedis(t, "redis://"+p.Addr(), 3*time.Second)
	ctx, stop := context.WithCancel(t.Context())
	events := make(chan Event, 100)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	watch.Go(func() { through.Watch(ctx, func(e Event) { events <- e }) })
	next := func(want Event) {
		t.Helper()
		select {
		case got := <-events:
			if got != want {
				t.Fatalf("%v, want %v", got, want)
			}
		case <-time.After(wait):
			t.Fatalf("no event, want %v", want)
		}
	}
	next(Event{})
	epoch, err := d.Claim(t.Context(), Claim{Stream: "s", Node: nodeA})
	if err != nil {
		t.Fatal(err)
	}
	next(Event{"s", Owner{nodeA, epoch}})
	d.rdb.Publish(t.Context(), d.channel, "no event")
	if _, err := d.Renew(t.Context(), nodeB); err != nil {
		t.Fatal(err)
	}
	next(Event{Owner: Owner{Node: nodeB}})
	p.Cut()
	next(Event{})
	// A connection on which nothing arrives is not mistaken for a cluster without events.
	p.Set(redistest.HoldReply(0))
	if _, err := d.Claim(t.Context(), Claim{Stream: "s", Node: nodeB}); err != nil {
		t.Fatal(err)
	}
	connected := p.Accepted()
	eventually(t, "another connection", func() bool { return p.Accepted() > connected })
	p.Set()
	next(Event{})
}
