// Package relay compares the costs of relays for live streams under the same load. Every relay must
// first deliver the published payloads, because a relay that loses tags is cheap.
package relay

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/load"
)

// Program compares relays. Each case is a number of streams and a number of viewers per stream.
var Program = &measure.Program{
	// A run takes about five minutes.
	Name: "relay", What: "live streams from publishers to viewers", Rounds: 2,
	Brief: []string{"-contenders", "bare@50ms,nginx,nginx@65536,share,copy,millrace@0,millrace,millrace-rtmp@0,millrace-rtmp," +
		"millrace-rtmp-flv"},
	Flags: func(f *flag.FlagSet) {
		f.StringVar(&options.cases, "case", "1x200,50x4", "STREAMSxVIEWERS, more with commas")
		f.StringVar(&options.contenders, "contenders", "rtmp",
			"http or rtmp, which are lists, or of "+specs+"; one ratio is to the first")
		f.IntVar(&options.seconds, "seconds", 5, "seconds measured of each turn")
		f.IntVar(&options.bitRate, "bitrate", 2_150_000, "bits a second of each stream")
		f.IntVar(&options.stalled, "stalled", 0,
			"one viewer in so many reads nothing for a minute; 0 for none")
	},
	Run: run,
}

var options struct {
	cases, contenders         string
	seconds, bitRate, stalled int
}

// A testCase is a number of streams, and a number of viewers of each stream.
type testCase struct{ streams, viewers int }

func (c testCase) String() string { return fmt.Sprintf("%dx%d", c.streams, c.viewers) }

func parseCase(s string) (c testCase, err error) {
	streams, viewers, ok := strings.Cut(s, "x")
	c.streams, err = strconv.Atoi(streams)
	if err == nil {
		c.viewers, err = strconv.Atoi(viewers)
	}
	if !ok || err != nil || c.streams < 1 || c.viewers < 1 {
		return testCase{}, fmt.Errorf("-case %q: want STREAMSxVIEWERS", s)
	}
	return c, nil
}

func run(ctx context.Context, p *measure.Params) error {
	dir, err := os.MkdirTemp("", "bench-relay-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all, err := ready(ctx, p, options.contenders, dir)
	if err != nil {
		return err
	}
	for _, name := range strings.Split(options.cases, ",") {
		c, err := parseCase(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		reports := make([][]load.Report, len(all))
		err = measure.Rounds(ctx, len(all), p.Rounds, func(round, i int) error {
			r, err := takeTurn(ctx, all[i], c)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c, all[i].name, err)
			}
			reports[i] = append(reports[i], r)
			p.Logf("relay: round %d, %s, %s: %.2f CPU s/GB, %.2f GB, lost %d, ended %v", round+1, c,
				all[i].name, usage(r).CPUPerGB,
				float64(r.Bytes)/1e9, r.Viewers.Lost, r.Viewers.Ended)
			return nil
		})
		if err != nil {
			return err
		}
		if err := p.Add(table(c, all, reports, p.Rounds)); err != nil {
			return err
		}
		if options.stalled > 0 {
			if err := p.Add(stalledTable(c, all, reports)); err != nil {
				return err
			}
		}
	}
	return nil
}

func ready(ctx context.Context, p *measure.Params, list, dir string) ([]contender, error) {
	all, err := parseContenders(list, dir)
	if err != nil {
		return nil, err
	}
	prepare := func(c contender) error { return c.prepare(ctx) }
	if all, err = measure.Present(all, func(c contender) string { return c.name }, prepare,
		p.Logf); err != nil {
		return nil, err
	}
	for _, c := range all {
		if err := c.check(ctx); err != nil {
			return nil, err
		}
		p.Logf("relay: %s delivers what was published", c.name)
	}
	return all, nil
}

func takeTurn(ctx context.Context, who contender, c testCase) (load.Report, error) {
	dir, err := os.MkdirTemp("", "bench-relay-")
	if err != nil {
		return load.Report{}, err
	}
	defer os.RemoveAll(dir)
	cfg := load.Config{
		Streams: c.streams, Viewers: c.viewers, BitRate: options.bitRate,
		Ramp: time.Second, Settle: time.Second,
		Duration: time.Duration(options.seconds) * time.Second,
	}
	if options.stalled > 0 {
		cfg.Stalled, cfg.StallFor = c.streams*c.viewers/options.stalled, time.Minute
	}
	s, err := who.start(ctx, dir, cfg)
	if err != nil {
		return load.Report{}, err
	}
	defer s.Stop()
	s.config.ServerPIDs = s.PIDs
	r, err := load.Run(ctx, s.config, nil)
	if err == nil {
		err = ctx.Err() // an interrupted turn has no result
	}
	return r, err
}

// usage returns the server's resource use, or the zero Usage if the system does not report it.
func usage(r load.Report) load.Usage {
	if r.Server == nil {
		return load.Usage{}
	}
	return *r.Server
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func total(m map[string]int) (n int) {
	for _, c := range m {
		n += c
	}
	return n
}

// tableName returns the name of the table for case c. The predefined list "rtmp" has its own table
// names, so that its results do not replace the results of other lists.
func tableName(c testCase) string {
	if options.contenders == "rtmp" {
		return "relay-rtmp-" + c.String()
	}
	return "relay-" + c.String()
}

func table(c testCase, all []contender, reports [][]load.Report, rounds int) *measure.Table {
	get := func(i int, f func(load.Report) float64) (s measure.Series) {
		for _, r := range reports[i] {
			s = append(s, f(r))
		}
		return s
	}
	cpu := func(r load.Report) float64 { return usage(r).CPUPerGB }
	bases := []string{all[0].spec, "bare@0", "nginx@65536", "millrace", "millrace-rtmp"}
	columns := []string{"contender", "publishers' protocol", "viewers' protocol", "server CPU s/GB"}
	var compared []measure.Series
	for k, spec := range bases {
		i := slices.IndexFunc(all, func(c contender) bool { return c.spec == spec })
		if i < 0 || slices.Index(bases, spec) < k {
			continue
		}
		columns = append(columns, "CPU, x "+all[i].name)
		compared = append(compared, get(i, cpu))
	}
	t := measure.NewTable(
		tableName(c), fmt.Sprintf(
			"Relay, streams x viewers of each: %s, %.2f Mbit/s a stream, %d rounds of %d s", c,
			float64(options.bitRate)/1e6, rounds, options.seconds),
		append(columns, "RSS MB", "gap p50 ms", "gap p99 ms",
			"latency p50 ms", "latency p99 ms", "tags lost", "ended early", "generator CPU s/GB",
			"publishing late p99 ms")...)
	t.Bar = 3
	t.Note = "A gigabyte is 10⁹ bytes of payload delivered to viewers. x is how many times as much CPU time the contender needs in the " +
		"same round."
	for i, who := range all {
		row := []any{who.name, who.in, who.out, get(i, cpu)}
		for _, base := range compared {
			row = append(row, get(i, cpu).Over(base))
		}
		latency := func(f func(load.Spread) time.Duration) float64 {
			return get(i, func(r load.Report) float64 {
				return milliseconds(f(r.Viewers.Latency))
			}).Median()
		}
		t.Row(append(row,
			get(i, func(r load.Report) float64 {
				return float64(usage(r).RSS) / (1 << 20)
			}).Median(),
			get(i, func(r load.Report) float64 { return milliseconds(r.Viewers.Gap.P50) }).Median(),
			get(i, func(r load.Report) float64 { return milliseconds(r.Viewers.Gap.P99) }).Median(),
			latency(func(s load.Spread) time.Duration { return s.P50 }),
			latency(func(s load.Spread) time.Duration { return s.P99 }),
			get(i, func(r load.Report) float64 { return float64(r.Viewers.Lost) }).Max(),
			get(i, func(r load.Report) float64 { return float64(total(r.Viewers.Ended)) }).Max(),
			get(i, func(r load.Report) float64 {
				if r.Generator == nil {
					return 0
				}
				return r.Generator.CPUPerGB
			}).Median(),
			get(i, func(r load.Report) float64 {
				return milliseconds(r.Publishers.Late.P99)
			}).Median())...)
	}
	return t
}

// stalledTable shows the losses of the stalled viewers, which read nothing for a minute, and the
// losses of all other viewers.
func stalledTable(c testCase, all []contender, reports [][]load.Report) *measure.Table {
	t := measure.NewTable("relay-stalled-"+c.String(),
		fmt.Sprintf("Relay %s while one viewer in %d reads nothing for a minute", c,
			options.stalled),
		"contender", "stalled viewers", "tags that the others lost", "others that were ended",
		"tags that the stalled lost",
		"stalled that were ended")
	for i, who := range all {
		get := func(f func(load.Report) int64) (s measure.Series) {
			for _, r := range reports[i] {
				s = append(s, float64(f(r)))
			}
			return s
		}
		t.Row(who.name, get(
			func(r load.Report) int64 { return int64(r.Stalled.Connected) }).Median(),
			get(func(r load.Report) int64 { return r.Viewers.Lost }),
			get(func(r load.Report) int64 { return int64(total(r.Viewers.Ended)) }),
			get(func(r load.Report) int64 { return r.Stalled.Lost }),
			get(func(r load.Report) int64 { return int64(total(r.Stalled.Ended)) }))
	}
	return t
}
