package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/redistest"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/cluster"
	"github.com/millrace-io/millrace/server/internal/testkit/redisclient"
	"github.com/redis/go-redis/v9"
)

// A backend is a Redis with a Directory in it.
type backend struct {
	directory *cluster.Redis
	segments  *cluster.Segments
	endLease  func(key string)
	wipe      func(key string)
}

const modelLease = time.Minute

func openBackend(t *testing.T, cfg cluster.RedisConfig) *backend {
	t.Helper()
	cfg.Lease = modelLease
	directory, err := cluster.OpenRedis(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = directory.Close() })
	segments, err := cluster.OpenRedisSegments(cfg, time.Minute, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = segments.Close(context.Background()) })
	return &backend{directory: directory, segments: segments}
}

// The simulated Redis answers like a real one for any sequence of the calls that nodes make.
func TestSimulatedRedisIsLikeRedis(t *testing.T) {
	prefix := fmt.Sprintf("sim-%d:", time.Now().UnixNano())
	server := redistest.Shared(t)
	rdb := redis.NewClient(redisclient.Options(server.Endpoint()))
	defer rdb.Close()
	actual := openBackend(t, cluster.RedisConfig{Address: "redis://" + server.Addr(), Prefix: prefix})
	actual.endLease = func(key string) { rdb.HSet(t.Context(), key, "until", 0) }
	actual.wipe = func(key string) { rdb.Del(t.Context(), key) }

	network := NewNetwork(rand.New(rand.NewPCG(1, 1)))
	simulated := NewRedis(network, rand.New(rand.NewPCG(1, 2)))
	defer simulated.Stop()
	model := openBackend(t, cluster.RedisConfig{Address: "redis://" + RedisAddress, Prefix: prefix,
		Dial: network.Host("node").Start().Dial})
	model.endLease = func(key string) {
		simulated.mu.Lock()
		defer simulated.mu.Unlock()
		if _, ok := simulated.get(key); ok {
			simulated.setFields(key, "until", "0")
		}
	}
	model.wipe = func(key string) {
		simulated.mu.Lock()
		defer simulated.mu.Unlock()
		delete(simulated.keys, key)
	}
	seeds := 20
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		compare(t, actual, model, prefix, fmt.Sprint("s", seed), uint64(seed))
	}
	compareStates(t, actual, model)
}

// compare makes the same random calls at two backends.
func compare(t *testing.T, actual, model *backend, prefix, stream string, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 5))
	nodes := []string{"http://a:1", "http://b:1"}
	key := prefix + "{" + stream + "}owner"
	// The epochs are greater than those that the clock of a Redis makes, so that both make the
	// same.
	last := uint64(8e15)
	var trace []string
	for step := range 80 {
		node := nodes[r.IntN(len(nodes))]
		var call string
		var on func(b *backend) string
		switch op := r.IntN(12); {
		case op < 4:
			c := cluster.Claim{Stream: stream, Node: node, ID: fmt.Sprint(node, step/(1+r.IntN(3))),
				Seen: last,
				Takeover: []live.Takeover{live.TakeoverAlways, live.TakeoverStalled,
					live.TakeoverNever}[r.IntN(3)]}
			last += 10
			call = fmt.Sprintf("claim %+v", c)
			on = func(b *backend) string {
				epoch, err := b.directory.Claim(t.Context(), c)
				return fmt.Sprint(epoch, " ", err)
			}
		case op < 9:
			o := cluster.Ownership{Stream: stream, Epoch: last - uint64(r.IntN(3)*10) - 9,
				Silent: time.Duration(r.IntN(2)) * time.Hour, Away: r.IntN(3) == 0,
				GiveUp: r.IntN(4) == 0}
			call = fmt.Sprintf("renew %s %+v", node, o)
			on = func(b *backend) string {
				errs, err := b.directory.Renew(t.Context(), node, o)
				return fmt.Sprint(errs, err)
			}
		case op == 9:
			call = "the lease ends"
			on = func(b *backend) string { b.endLease(key); return "" }
		case op == 10:
			call = "the data are lost"
			on = func(b *backend) string { b.wipe(key); return "" }
		default:
			call = "nothing"
			on = func(*backend) string { return "" }
		}
		trace = append(trace, call)
		want, got := on(actual), on(model)
		a, errA := actual.directory.Lookup(t.Context(), stream)
		b, errB := model.directory.Lookup(t.Context(), stream)
		if want != got || a != b || !errors.Is(errB, errA) {
			t.Fatalf("seed %d, step %d: %s\nRedis:     %s, then %v, %v\nsimulated: %s, then %v, %v\n%s",
				seed, step, call, want, a, errA, got, b, errB, strings.Join(trace, "\n"))
		}
	}
}

// compareStates stores playlist states at two backends.
func compareStates(t *testing.T, backends ...*backend) {
	t.Helper()
	for _, b := range backends {
		for _, step := range []struct{ epoch, want uint64 }{{5, 5}, {7, 7}, {6, 7}, {7, 7}} {
			text := fmt.Appendf(nil, "state of %d", step.epoch)
			saved := b.segments.Stats()
			b.segments.SaveState("cam", step.epoch, text)
			for b.segments.Stats().Waiting > 0 {
				time.Sleep(time.Millisecond)
			}
			if lost := b.segments.Stats().Lost - saved.Lost; lost != 0 {
				t.Fatalf("%d states were lost", lost)
			}
			want := fmt.Sprint("state of ", step.want)
			got, err := b.segments.LoadState(t.Context(), "cam")
			if err != nil || string(got) != want {
				t.Fatalf("after epoch %d the state is %q, %v, want %q", step.epoch, got, err, want)
			}
		}
	}
}
