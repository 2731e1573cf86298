package files

import (
	"fmt"
	"io"
	"strings"

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

// ours is the key of what a contender is compared with: chunk.FileServer, and
// behind the middleware if the contender is.
func ours(key string) string {
	if strings.HasPrefix(key, "wrapped-") {
		return "wrapped-millrace"
	}
	return "millrace"
}

// cpuOfOurs is what that one needed for a gigabyte, none if it takes no part.
func (p Plan) cpuOfOurs(turns []Turn, c Case, who Contender) measure.Series {
	for _, us := range p.Contenders {
		if us.Key() == ours(who.Key()) {
			return series(turns, c, us.Name(), Turn.cpuPerGB)
		}
	}
	return nil
}

// WriteTable writes a case's comparison. Ratios are taken within each round: of
// the work for a CPU second to the first contender's, so that who has 2 does
// twice as much, and of the CPU time to ours, so that who has 2 needs twice as
// much.
func (p Plan) WriteTable(w io.Writer, c Case, turns []Turn) {
	base := p.Contenders[0].Name()
	t := measure.NewTable("contender", "CPU s/GB", "work a CPU s, x "+base, "CPU, x ours", "MB/s",
		"requests/s", "p99 ms", "peak RSS MB", "errors", "wrk's CPU s/GB")
	reference := series(turns, c, base, Turn.cpuPerGB)
	for _, who := range p.Contenders {
		get := func(f figure) measure.Series { return series(turns, c, who.Name(), f) }
		cpu := get(Turn.cpuPerGB)
		late := "-" // not one request came to its end
		if s := get(func(t Turn) float64 { return t.P99 * 1e3 }); s.Min() > 0 {
			late = s.String()
		}
		t.Row(who.Name(), cpu, reference.Over(cpu), cpu.Over(p.cpuOfOurs(turns, c, who)),
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
	return fmt.Sprintf("wrk has %s, on %s; the server is on %s. Ours is chunk.FileServer, behind a wrapper for those that are.",
		threads, anywhere(p.LoadCPUs), anywhere(p.ServerCPUs))
}
