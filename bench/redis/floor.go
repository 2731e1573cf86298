package redis

import (
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

// A Floor is what a call takes redis-benchmark, which comes with Redis, is written in C and throws values away, beside what
// it takes redisbuf: a value for each round.
type Floor struct {
	Call          string // GET or SET
	Size, Clients int
	Theirs, Ours  Cost
}

// A Cost is what a call takes.
type Cost struct {
	Nanos measure.Series // of time that passes
	CPU   measure.Series // nanoseconds of the client's process, in user and system mode
}

// ErrNoRedisBenchmark says that redis-benchmark is not installed.
var ErrNoRedisBenchmark = measure.Missing("redis-benchmark", "redis-tools")

// floorTurns is how many times as long as others the turns are: redis-benchmark counts whole milliseconds, and to start it
// costs some CPU time.
const floorTurns = 5

// leastFloorCalls is how many calls each client of redis-benchmark makes at least in a turn, because its first one finds
// nothing prepared, and ours is made before the clock starts.
const leastFloorCalls = 4

// floorCalls are what is compared.
var floorCalls = []struct {
	call string
	ours Contender
	args func(s *Site) []string // of redis-benchmark
}{
	{"GET", Contender{"redisbuf GetToBuffer", openGetToBuffer}, func(*Site) []string { return []string{"GET", key} }},
	{"SET", Contender{"redisbuf SetFromBuffer", openSetFromBuffer}, func(s *Site) []string {
		return []string{"-t", "set", "-d", strconv.Itoa(s.Size)}
	}},
}

// RunFloor measures both, in turns. The clients of redis-benchmark are as many as our goroutines.
func (p *Plan) RunFloor(ctx context.Context) (all []Floor, err error) {
	path, err := exec.LookPath("redis-benchmark")
	if err != nil {
		return nil, ErrNoRedisBenchmark
	}
	for _, c := range floorCalls {
		for _, n := range p.Goroutines {
			for _, size := range p.Sizes {
				p.Log("redis-benchmark: %s, %s, %d clients", c.call, SizeName(size), n)
				site, err := p.Server.site(ctx, size, "")
				if err != nil {
					return all, err
				}
				f := Floor{Call: c.call, Size: size, Clients: n}
				them := rival{path: path, site: site, clients: n, args: c.args(site)}
				if err := p.runFloor(ctx, &f, them, c.ours); err != nil {
					return all, fmt.Errorf("redis-benchmark and %s: %w", c.ours.Name, err)
				}
				all = append(all, f)
			}
		}
	}
	return all, nil
}

func (p *Plan) runFloor(ctx context.Context, f *Floor, them rival, ours Contender) error {
	w, err := assemble(ctx, ours, them.site, f.Clients)
	if err != nil {
		return err
	}
	defer w.dismiss()
	turn := floorTurns * p.Turn
	calls, err := w.calibrate(turn)
	if err != nil {
		return err
	}
	theirCalls, _, err := them.turn(ctx, leastFloorCalls, turn)
	if err != nil {
		return err
	}
	for round := range p.Rounds {
		turns := []func() error{
			func() error { return f.Theirs.byRival(ctx, them, theirCalls, turn) },
			func() error { return f.Ours.byCrew(w, calls) },
		}
		for _, i := range crossover.Order(len(turns), round) {
			if err := turns[i](); err != nil {
				return err
			}
		}
	}
	return nil
}

// byCrew has each goroutine of w make n calls, and adds what a call took.
func (c *Cost) byCrew(w *crew, n int) error {
	var r Result
	err := r.turn(w, n)
	c.add(Cost{r.Nanos, r.CPU})
	return err
}

// byRival has each of the clients make n calls, or more if they take too short, and adds what a call took.
func (c *Cost) byRival(ctx context.Context, them rival, n int, d time.Duration) error {
	_, each, err := them.turn(ctx, n, d)
	c.add(each)
	return err
}

func (c *Cost) add(more Cost) {
	c.Nanos = append(c.Nanos, more.Nanos...)
	c.CPU = append(c.CPU, more.CPU...)
}

// A rival is redis-benchmark, started anew for each turn.
type rival struct {
	path    string
	site    *Site
	clients int
	args    []string // what it calls
}

// run has each client make n calls, and returns how long all of them took, and the CPU time of the process.
func (r rival) run(ctx context.Context, n int) (took, cpu time.Duration, err error) {
	args := []string{"--csv", "-c", strconv.Itoa(r.clients), "-n", strconv.Itoa(n * r.clients)}
	if r.site.Network == "unix" {
		args = append(args, "-s", r.site.Addr)
	} else {
		host, port, err := net.SplitHostPort(r.site.Addr)
		if err != nil {
			return 0, 0, err
		}
		args = append(args, "-h", host, "-p", port)
	}
	cmd := exec.CommandContext(ctx, r.path, append(args, r.args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = dieWithParent()
	said, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("redis-benchmark: %w", err)
	}
	rate, err := parseRate(string(said))
	if err != nil {
		return 0, 0, err
	}
	took = time.Duration(float64(n*r.clients) / rate * float64(time.Second))
	return took, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// turn has each client make n calls, and twice as many again for as long as that takes less than a quarter of d: so few
// milliseconds say little. It returns how many calls each makes in d, and what one took.
func (r rival) turn(ctx context.Context, n int, d time.Duration) (calls int, each Cost, err error) {
	for ; ; n *= 2 {
		took, cpu, err := r.run(ctx, n)
		if err != nil {
			return 0, Cost{}, err
		}
		if took >= d/4 && took > 0 {
			all := float64(n * r.clients)
			calls = max(leastFloorCalls, int(float64(n)*float64(d)/float64(took)))
			return calls, Cost{measure.Series{float64(took) / all}, measure.Series{float64(cpu) / all}}, nil
		}
	}
}

// parseRate reads what redis-benchmark prints: two lines, of which the second says how many requests it made a second. That
// is infinite where they took less than a millisecond.
func parseRate(said string) (float64, error) {
	rows, err := csv.NewReader(strings.NewReader(said)).ReadAll()
	if err != nil || len(rows) != 2 || len(rows[1]) < 2 || rows[0][1] != "rps" {
		return 0, fmt.Errorf("redis-benchmark: it says %q, and not its rate", said)
	}
	rate, err := strconv.ParseFloat(rows[1][1], 64)
	if err != nil || !(rate > 0) {
		return 0, fmt.Errorf("redis-benchmark: a rate of %q", rows[1][1])
	}
	return rate, nil
}
