package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/internal/sleep"
)

// A Capacity says how many viewers of one stream this machine can serve over HTTP. It follows from
// two costs: a viewer costs WriteNS for each write, and PerGB for its bytes.
type Capacity struct {
	CPUs    int     `json:"cpus"`
	BitRate int     `json:"bit_rate"`     // of the stream, in bits per second
	WriteNS float64 `json:"write_ns"`     // CPU time of a write, without its bytes
	PerGB   float64 `json:"cpu_s_per_gb"` // CPU time for 10⁹ bytes, without the writes
	Bounds  []Bound `json:"bounds"`
}

// A Bound is the number of viewers at a value of --latency.
type Bound struct {
	Latency time.Duration `json:"latency_ns"`
	Viewers int           `json:"viewers"` // keep all CPUs busy
}

// A Trial is the load with which Measure loads a server.
type Trial struct {
	// Server returns a command that runs "millrace serve" with the given flags.
	Server  func(args ...string) *exec.Cmd
	Viewers int
	BitRate int           // of the stream, in bits per second
	Time    time.Duration // of each of the two measurements
}

// trialBounds are the values of --latency at which Measure measures. They are far apart, so that
// the costs of writes and of bytes can be told apart.
var trialBounds = [2]time.Duration{50 * time.Millisecond, 200 * time.Millisecond}

// Measure starts two servers on this machine, one after the other, loads them, and returns the
// capacity that follows from their CPU times. It works on Linux only.
func Measure(ctx context.Context, t Trial) (Capacity, error) {
	var costs [2]float64 // CPU seconds of a viewer per second
	var rate float64     // bytes of a viewer per second
	for i, bound := range trialBounds {
		r, err := t.run(ctx, bound)
		if err != nil {
			return Capacity{}, fmt.Errorf("measuring: %w", err)
		}
		seconds := r.Measured.Seconds() * float64(t.Viewers)
		costs[i], rate = r.Server.CPU.Seconds()/seconds, float64(r.Bytes)/seconds
	}
	return capacity(costs, rate, t.BitRate), nil
}

// capacity returns the Capacity for the costs of a viewer at each of trialBounds, in CPU seconds
// per second. rate is the number of bytes that a viewer receives per second.
func capacity(costs [2]float64, rate float64, bitRate int) Capacity {
	first, second := 1/trialBounds[0].Seconds(), 1/trialBounds[1].Seconds() // writes per second
	write := max((costs[0]-costs[1])/(first-second), 0)
	bytes := max(costs[1]-write*second, 0)
	c := Capacity{CPUs: runtime.GOMAXPROCS(0), BitRate: bitRate, WriteNS: write * 1e9,
		PerGB: bytes / rate * 1e9}
	for _, bound := range []time.Duration{50, 100, 200} {
		bound *= time.Millisecond
		if cost := write/bound.Seconds() + bytes; cost > 0 {
			c.Bounds = append(c.Bounds, Bound{bound, int(float64(c.CPUs) / cost)})
		}
	}
	return c
}

// run starts a server with the given --latency, loads it, and stops it.
func (t Trial) run(ctx context.Context, latency time.Duration) (r load.Report, err error) {
	addr, err := freeAddr()
	if err != nil {
		return r, err
	}
	cmd := t.Server("--listen", addr, "--rtmp", "", "--latency", latency.String(),
		"--log-level", "error", "--max-viewers", fmt.Sprint(t.Viewers),
		"--max-stream-viewers", fmt.Sprint(t.Viewers))
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		return r, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	defer func() {
		_ = cmd.Process.Kill()
		<-ended
		if err != nil && log.Len() > 0 {
			err = fmt.Errorf("%w; the server: %s", err, line(log.String()))
		}
	}()
	if err := awaitListener(ctx, addr, ended); err != nil {
		return r, err
	}
	r, err = load.Run(ctx, load.Config{URL: "http://" + addr, Streams: 1, Viewers: t.Viewers,
		BitRate: t.BitRate, Duration: t.Time, ServerPIDs: []int{cmd.Process.Pid}}, nil)
	switch {
	case err != nil:
		return r, err
	case r.Interrupted:
		return r, context.Cause(ctx)
	case r.Server == nil:
		return r, errors.New("the server's CPU time is unknown")
	case r.Viewers.Connected < t.Viewers:
		return r, fmt.Errorf("%d of %d viewers could connect", r.Viewers.Connected, t.Viewers)
	}
	return r, nil
}

// freeAddr returns a loopback address at which no server listens.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// awaitListener waits until a server listens at addr. It returns an error if the server has ended.
func awaitListener(ctx context.Context, addr string, ended <-chan struct{}) error {
	for {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ended:
			return errors.New("the server does not start")
		default:
		}
		if !sleep.For(ctx, 20*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}
