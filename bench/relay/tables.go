package relay

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/load"
)

func cpuPerGB(r *load.Report) float64 { return server(r).CPUPerGB }

func rss(r *load.Report) float64 { return float64(server(r).RSS) / (1 << 20) }

func generatorCPU(r *load.Report) float64 {
	if r.Generator == nil {
		return 0
	}
	return r.Generator.CPUPerGB
}

func server(r *load.Report) *load.Usage {
	if r.Server == nil {
		return new(load.Usage)
	}
	return r.Server
}

func ms(f func(*load.Report) time.Duration) figure {
	return func(r *load.Report) float64 { return float64(f(r)) / float64(time.Millisecond) }
}

func lost(r *load.Report) float64 { return float64(r.Viewers.Lost) }

func ended(r *load.Report) float64 { return float64(total(r.Viewers.Ended)) }

func total(m map[string]int) (n int) {
	for _, c := range m {
		n += c
	}
	return n
}

var (
	gapP50     = ms(func(r *load.Report) time.Duration { return r.Viewers.Gap.P50 })
	gapP99     = ms(func(r *load.Report) time.Duration { return r.Viewers.Gap.P99 })
	gapMax     = ms(func(r *load.Report) time.Duration { return r.Viewers.Gap.Max })
	latencyP50 = ms(func(r *load.Report) time.Duration { return r.Viewers.Latency.P50 })
	latencyP99 = ms(func(r *load.Report) time.Duration { return r.Viewers.Latency.P99 })
	lateP99    = ms(func(r *load.Report) time.Duration { return r.Publishers.Late.P99 })
)

// ours is the contender that the others are compared with: millrace with its
// default bound, or else the first millrace there is, or nil.
func (p Plan) ours() (us Contender) {
	for _, c := range p.Contenders {
		if m, ok := c.(Millrace); ok && (us == nil || m.Latency == defaultLatency) {
			us = c
		}
	}
	return us
}

// WriteTable writes the comparison. Ratios are of CPU time, taken to the first
// contender and to ours within each round. The calls are those of CountCalls, or
// nil.
func (p Plan) WriteTable(w io.Writer, turns []Turn, calls map[string]float64) {
	base := p.Contenders[0].Name()
	head := []string{"contender", "CPU s/GB", "x " + base, "RSS MB", "gap p50/p99/max ms", "latency p50/p99 ms", "lost",
		"ended early", "generator CPU s/GB", "late p99 ms"}
	us := p.ours()
	if us != nil {
		head = append(head, "CPU, x "+us.Name())
	}
	if calls != nil {
		head = append(head, "system calls a MB")
	}
	t := measure.NewTable(head...)
	reference := series(turns, base, cpuPerGB)
	for _, c := range p.Contenders {
		get := func(f figure) measure.Series { return series(turns, c.Name(), f) }
		cpu := get(cpuPerGB)
		latency := fmt.Sprintf("%.1f / %.1f", get(latencyP50).Median(), get(latencyP99).Median())
		if get(latencyP99).Median() == 0 {
			latency = "-" // makes its stream by itself
		}
		row := []any{c.Name(), cpu, cpu.Over(reference), get(rss).Median(),
			fmt.Sprintf("%.1f / %.1f / %.0f", get(gapP50).Median(), get(gapP99).Median(), get(gapMax).Median()),
			latency, get(lost), get(ended), get(generatorCPU).Median(), get(lateP99).Median()}
		if us != nil {
			row = append(row, cpu.Over(series(turns, us.Name(), cpuPerGB)))
		}
		if calls != nil {
			row = append(row, calls[c.Name()])
		}
		t.Row(row...)
	}
	fmt.Fprintf(w, "%s, %.2f Mbit/s a stream, %d rounds of %d s\n\n", p.Case, float64(p.BitRate)/1e6, p.Rounds, p.Seconds)
	t.WriteTo(w)
	if p.Case.Stalled > 0 {
		p.writeStalled(w, turns)
	}
}

// writeStalled tells what became of the viewers that stopped reading.
func (p Plan) writeStalled(w io.Writer, turns []Turn) {
	t := measure.NewTable("contender", "stalled viewers", "jumps", "lost tags", "ended by the server", "why", "the server's count, all rounds")
	for _, c := range p.Contenders {
		get := func(f func(*load.Viewers) float64) measure.Series {
			return series(turns, c.Name(), func(r *load.Report) float64 { return f(&r.Stalled) })
		}
		why, counted := make(map[string]int), make(map[string]int)
		for i := range turns {
			if turns[i].Contender == c.Name() {
				add(why, turns[i].Report.Stalled.Ended)
				add(counted, turns[i].Counted)
			}
		}
		t.Row(c.Name(),
			get(func(v *load.Viewers) float64 { return float64(v.Connected) }).Median(),
			get(func(v *load.Viewers) float64 { return float64(v.Jumps) }),
			get(func(v *load.Viewers) float64 { return float64(v.Lost) }),
			get(func(v *load.Viewers) float64 { return float64(total(v.Ended)) }), list(why), list(counted))
	}
	fmt.Fprintf(w, "\nOne viewer in %d reads nothing for a minute:\n\n", p.Case.Stalled)
	t.WriteTo(w)
}

func add(sum, m map[string]int) {
	for k, n := range m {
		sum[k] += n
	}
}

// list prints reasons, the most frequent first.
func list(why map[string]int) string {
	names := slices.SortedFunc(maps.Keys(why), func(a, b string) int {
		return cmp.Or(why[b]-why[a], strings.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%s: %d", name, why[name])
	}
	return strings.Join(names, ", ")
}
