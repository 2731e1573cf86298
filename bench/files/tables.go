package files

import (
	"fmt"
	"io"

	"github.com/millrace-io/millrace/bench/measure"
)

// gigabyte is what CPU time is counted for.
const gigabyte = 1e9

func (t Turn) cpuPerGB() float64 { return t.CPU / (float64(t.Bytes) / gigabyte) }

// figure takes one number out of a turn.
type figure func(Turn) float64

// series is that number in every round of a contender.
func series(turns []Turn, c Case, contender string, f figure) measure.Series {
	var s measure.Series
	for _, t := range turns {
		if t.Case == c.String() && t.Contender == contender {
			s = append(s, f(t))
		}
	}
	return s
}

// WriteTable writes a case's comparison. Ratios are of the work for a CPU
// second, taken to the first contender's within each round: who has 2 does
// twice as much.
func (p Plan) WriteTable(w io.Writer, c Case, turns []Turn) {
	base := p.Contenders[0].Name()
	t := measure.NewTable("contender", "CPU s/GB", "work a CPU s, x "+base, "MB/s", "requests/s", "p99 ms",
		"peak RSS MB", "errors", "wrk's CPU s/GB")
	reference := series(turns, c, base, Turn.cpuPerGB)
	for _, who := range p.Contenders {
		get := func(f figure) measure.Series { return series(turns, c, who.Name(), f) }
		cpu := get(Turn.cpuPerGB)
		late := "-" // not one request came to its end
		if s := get(func(t Turn) float64 { return t.P99 * 1e3 }); s.Min() > 0 {
			late = s.String()
		}
		t.Row(who.Name(), cpu, reference.Over(cpu),
			get(func(t Turn) float64 { return float64(t.Bytes) / 1e6 / t.Seconds }),
			get(func(t Turn) float64 { return float64(t.Requests) / t.Seconds }), late,
			get(func(t Turn) float64 { return float64(t.Peak) / (1 << 20) }).Median(),
			get(func(t Turn) float64 { return float64(t.Errors) }),
			get(func(t Turn) float64 { return t.LoadCPU / (float64(t.Bytes) / gigabyte) }).Median())
	}
	fmt.Fprintf(w, "*%s, %d rounds of %d s*\n\n", c.Title(), p.Rounds, p.seconds(c))
	t.WriteTo(w)
}

// Sharing says who runs on which processors.
func (p Plan) Sharing() string {
	anywhere := func(cpus string) string {
		if cpus == "" {
			return "all CPUs"
		}
		return "CPU " + cpus
	}
	threads := fmt.Sprintf("%d threads", p.Threads)
	if p.Threads == 1 {
		threads = "one thread"
	}
	return fmt.Sprintf("wrk has %s, on %s; the server is on %s.", threads, anywhere(p.LoadCPUs), anywhere(p.ServerCPUs))
}
