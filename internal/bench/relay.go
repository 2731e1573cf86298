package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/internal/observe"
)

const relayWhat = "A live stream of 2.15 Mbit/s to many viewers, millrace serve in a process of its own"

// relayBitRate is that of the stream: picture and sound of a common live stream in 720p.
const relayBitRate = 2_150_000

// progressEvery is how often a load tells how far it is: often enough that each sample of a recording has its own part.
const progressEvery = 10 * time.Millisecond

// relays are the latency bounds that are measured: nothing waits, and the server's default.
var relays = []struct {
	key, name string
	latency   time.Duration
}{
	{"latency-0", "--latency 0", 0},
	{"latency-50ms", "--latency 50ms", 50 * time.Millisecond},
}

// relayTurnLength is how long a turn takes, with what comes before the measurement.
func relayTurnLength(e Effort) time.Duration { return 2*e.RelayRamp + e.RelayTurn }

func relayLength(e Effort) time.Duration {
	return time.Duration(len(relays)) * (time.Duration(e.Rounds)*relayTurnLength(e) + 2*e.RelayRamp + e.Record)
}

// A relayTurn is a relay under load for a while.
type relayTurn struct{ cpu, p50, p99 float64 }

func runRelay(ctx context.Context, s *session) error {
	s.note("There is no rival in the standard library: the two latency bounds stand beside each other, and for relays of " +
		"others see docs/benchmarks.md.")
	s.note("CPU time is the server's from before the first viewer came until the last one had gone, for all bytes that " +
		"viewers got.")
	turns := make([][]relayTurn, len(relays))
	err := inTurns(ctx, s.effort.Rounds, len(relays), func(_, i int) error {
		t, err := s.relayTurn(ctx, relays[i].latency)
		if err != nil {
			return fmt.Errorf("%s: %w", relays[i].name, err)
		}
		turns[i] = append(turns[i], t)
		s.step(relays[i].name, relayTurnLength(s.effort))
		return nil
	})
	s.reportRelay(turns)
	if err != nil {
		return err
	}
	for _, r := range relays {
		if err := s.recordRelay(ctx, r.key, r.name, r.latency); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		s.step("recording, "+r.name, 2*s.effort.RelayRamp+s.effort.Record)
	}
	return nil
}

func (s *session) relayConfig(p *process, d time.Duration) load.Config {
	return load.Config{
		URL: "http://" + p.addr, Streams: 1, Viewers: s.effort.Viewers, BitRate: relayBitRate,
		// The first key frame is there at once, and a second one in every turn.
		KeyInterval: 2 * time.Second, Ramp: s.effort.RelayRamp, Settle: s.effort.RelayRamp, Duration: d,
		Interval: progressEvery,
	}
}

// relayTurn starts a relay anew: its memory and its streams are those of this turn.
func (s *session) relayTurn(ctx context.Context, latency time.Duration) (t relayTurn, err error) {
	p, err := s.cfg.startProcess(order{Latency: latency})
	if err != nil {
		return relayTurn{}, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	before, err := p.cpu()
	if err != nil {
		return relayTurn{}, err
	}
	r, err := load.Run(ctx, s.relayConfig(p, s.effort.RelayTurn), nil)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return relayTurn{}, err
	}
	after, err := p.cpu()
	if err != nil {
		return relayTurn{}, err
	}
	if r.Viewers.Lost > 0 || len(r.Viewers.Ended) > 0 {
		s.note(fmt.Sprintf("In a turn with a bound of %v viewers lost %d frames, and ended early: %v.",
			latency, r.Viewers.Lost, r.Viewers.Ended))
	}
	return relayTurn{
		cpu: (after - before).Seconds() / (float64(r.Viewers.Bytes) / 1e9),
		p50: milliseconds(r.Viewers.Latency.P50),
		p99: milliseconds(r.Viewers.Latency.P99),
	}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (s *session) reportRelay(turns [][]relayTurn) {
	for _, m := range []struct {
		key, what, unit string
		of              func(relayTurn) float64
	}{
		{"cpu", "the server's CPU time", "CPU s/GB", func(t relayTurn) float64 { return t.cpu }},
		{"p50", "latency of a frame, median", "ms", func(t relayTurn) float64 { return t.p50 }},
		{"p99", "latency of a frame, 99th percentile", "ms", func(t relayTurn) float64 { return t.p99 }},
	} {
		for i, r := range relays {
			values := make(Series, len(turns[i]))
			for k, t := range turns[i] {
				values[k] = m.of(t)
			}
			if len(values) == 0 {
				continue
			}
			s.add(Figure{
				Name: "relay/" + r.key + "/" + m.key, Suite: s.suite,
				What: fmt.Sprintf("%d viewers: %s", s.effort.Viewers, m.what), Unit: m.unit, Better: Lower,
				Measured: measured("millrace serve "+r.name, values),
			})
		}
	}
}

// recordRelay has a relay under load once more, and records it.
func (s *session) recordRelay(ctx context.Context, key, name string, latency time.Duration) (err error) {
	p, err := s.cfg.startProcess(order{Latency: latency})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	probe, err := startProbe(ctx, p.addr)
	if err != nil {
		return err
	}
	meter := &relayMeter{probe: probe}
	err = s.recordServer(p, Recording{
		Suite: s.suite, Contender: "millrace serve " + name,
		What:      fmt.Sprintf("A stream of %.2f Mbit/s to %d viewers", relayBitRate/1e6, s.effort.Viewers),
		Operation: "frames to viewers",
	}, key, meter.load, func() error {
		_, err := load.Run(ctx, s.relayConfig(p, s.effort.Record), meter.progress)
		if err == nil {
			err = ctx.Err()
		}
		return err
	})
	return errors.Join(err, probe.stop())
}

// A relayMeter puts together what the load of a relay does: what its viewers get, and the latency of a probe.
type relayMeter struct {
	probe *probe
	last  atomicProgress
}

// progress is called by load.Run.
func (m *relayMeter) progress(p load.Progress) { m.last.store(p) }

// load is called at the end of each interval. An operation is a frame that a viewer got.
func (m *relayMeter) load() observe.Load {
	l := m.probe.latencies.Load()
	l.Operations, l.Bytes, l.Errors = m.last.since()
	return l
}
