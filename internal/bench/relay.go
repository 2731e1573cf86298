package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/internal/observe"
)

const relayWhat = "A live stream of 2.15 Mbit/s to many viewers, millrace serve in a process of its own"

// relayBitRate is that of the stream: picture and sound of a common live stream in 720p.
const relayBitRate = 2_150_000

// A relayContender is a relay by the order that starts it.
type relayContender struct {
	key, name string
	order     order
}

// ourRelays are ours at two latency bounds: nothing waits, and the server's default.
var ourRelays = []relayContender{
	{"latency-0", "millrace serve --latency 0", order{}},
	{"latency-50ms", "millrace serve --latency 50ms", order{Latency: 50 * time.Millisecond}},
}

// plainRelay is what they are compared with.
var plainRelay = relayContender{"plain", "net/http, a copy a viewer, Write and Flush", order{Handler: plainRelayHandler}}

// allRelays are ours and then the rival.
func allRelays() []relayContender { return append(slices.Clone(ourRelays), plainRelay) }

// relayTurnLength is how long a turn takes, with what comes before the measurement.
func relayTurnLength(e Effort) time.Duration { return 2*e.RelayRamp + e.RelayTurn }

func relayLength(e Effort) time.Duration {
	return time.Duration(len(allRelays())*e.Rounds)*relayTurnLength(e) + time.Duration(len(ourRelays))*(2*e.RelayRamp+e.Record)
}

// A relayTurn is a relay under load for a while.
type relayTurn struct{ cpu, p50, p99 float64 }

func runRelay(ctx context.Context, s *session) error {
	s.note("The standard library has no relay: the rival is one as it is written with net/http, which gives each viewer a copy of " +
		"each tag. For relays of others see docs/benchmarks.md. A latency bound of 50 ms is latency, and loses there by what it saves.")
	s.note("CPU time is the server's from before the first viewer came until the last one had gone, for all bytes that " +
		"viewers got.")
	relays := allRelays()
	turns := make([][]relayTurn, len(relays))
	err := inTurns(ctx, s.effort.Rounds, len(relays), func(_, i int) error {
		t, err := s.relayTurn(ctx, relays[i])
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
	for _, r := range ourRelays {
		if err := s.recordRelay(ctx, r); err != nil {
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
	}
}

// relayTurn starts a relay anew: its memory and its streams are those of this turn.
func (s *session) relayTurn(ctx context.Context, c relayContender) (t relayTurn, err error) {
	p, err := s.cfg.startProcess(c.order)
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
		s.note(fmt.Sprintf("In a turn of %s viewers lost %d frames, and ended early: %v.", c.name, r.Viewers.Lost, r.Viewers.Ended))
	}
	return relayTurn{
		cpu: (after - before).Seconds() / (float64(r.Viewers.Bytes) / 1e9),
		p50: milliseconds(r.Viewers.Latency.P50),
		p99: milliseconds(r.Viewers.Latency.P99),
	}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// reportRelay adds the figures of the rounds that all relays have done.
func (s *session) reportRelay(turns [][]relayTurn) {
	rounds := complete(turns)
	if rounds == 0 {
		return
	}
	relays := allRelays()
	for _, m := range []struct {
		key, what, unit string
		of              func(relayTurn) float64
	}{
		{"cpu", "the server's CPU time", "CPU s/GB", func(t relayTurn) float64 { return t.cpu }},
		{"p50", "latency of a frame, median", "ms", func(t relayTurn) float64 { return t.p50 }},
		{"p99", "latency of a frame, 99th percentile", "ms", func(t relayTurn) float64 { return t.p99 }},
	} {
		all := make([]Measured, len(relays))
		for i, r := range relays {
			values := make(Series, rounds)
			for k := range values {
				values[k] = m.of(turns[i][k])
			}
			all[i] = measured(r.name, values)
		}
		for i, r := range ourRelays {
			f := Figure{
				Name: "relay/" + r.key + "-" + m.key + "/" + plainRelay.key, Suite: s.suite,
				What: fmt.Sprintf("%d viewers: %s", s.effort.Viewers, m.what), Unit: m.unit, Better: Lower,
				Measured: all[i],
			}
			f.against(all[len(ourRelays)])
			s.add(f)
		}
	}
}

// recordRelay has a relay under load once more, and records it.
func (s *session) recordRelay(ctx context.Context, r relayContender) (err error) {
	p, err := s.cfg.startProcess(r.order)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	meter := new(load.Meter)
	return s.recordServer(p, Recording{
		Suite: s.suite, Key: r.key, Contender: r.name,
		What:      fmt.Sprintf("A stream of %.2f Mbit/s to %d viewers", relayBitRate/1e6, s.effort.Viewers),
		Operation: "frames to viewers",
	}, func() observe.Load { return relayLoad(meter.Interval()) }, func() error {
		cfg := s.relayConfig(p, s.effort.Record)
		cfg.Meter = meter
		_, err := load.Run(ctx, cfg, nil)
		if err == nil {
			err = ctx.Err()
		}
		return err
	})
}

// relayLoad is what the viewers of a relay got in an interval: an operation is a frame that one of them got.
func relayLoad(i load.Interval) observe.Load {
	return observe.Load{
		Operations: i.Tags, Bytes: i.Bytes, Errors: i.Lost + i.Ended,
		P50: i.P50, P95: i.P95, P99: i.P99,
	}
}
