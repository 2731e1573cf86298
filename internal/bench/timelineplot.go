package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/observe"
	"github.com/wcharczuk/go-chart/v2"
)

const (
	stripHeight = 50 // points, of one strip's data
	stripTitle  = 23 // above it
	timeMargin  = 30 // for the axis under the last
)

// A strip is one part of a layer over time: one line, or two in the same unit.
type strip struct {
	layer, title string
	source       string // where it comes from, and for whom it counts
	unknown      string // why it is not known; then there is no line
	lines        []line
}

type line struct {
	name   string // empty if it is the only one
	paint  paint
	points []point
}

// strips are those of a recording, the layers under each other. Time is in seconds since the load began to be recorded.
func (r *Recording) strips() []strip {
	who := "the server's process"
	under := r.Server
	if under == nil {
		under, who = r.Load, "this process, client and load"
	}
	if r.Load == nil || under == nil {
		return nil
	}
	load := func(f func(observe.Sample) float64) []point { return points(r.Load, 0, f) }
	shift := under.Began.Sub(r.Load.Began)
	below := func(f func(observe.Sample) float64) []point { return points(under, shift, f) }
	strips := []strip{
		{layer: "Load", title: r.Operation + " a second", source: "counted by the clients", lines: []line{
			{"", line1, load(func(s observe.Sample) float64 { return s.Load.Rate })}}},
		{layer: "Load", title: "latency, ms", source: r.latencySource(), lines: []line{
			{"p50", line1, load(func(s observe.Sample) float64 { return milliseconds(s.Load.P50) })},
			{"p95", line3, load(func(s observe.Sample) float64 { return milliseconds(s.Load.P95) })},
			{"p99", line2, load(func(s observe.Sample) float64 { return milliseconds(s.Load.P99) })}}},
		{layer: "Load", title: "errors a second", source: "counted by the clients", lines: []line{
			{"", line1, load(func(s observe.Sample) float64 { return perSecond(s.Load.Errors, s.Length) })}}},
		{layer: "Runtime", title: "heap, MiB", source: "runtime/metrics of " + who, lines: []line{
			{"", line1, below(func(s observe.Sample) float64 { return float64(s.Runtime.HeapBytes) / (1 << 20) })}}},
		{layer: "Runtime", title: "garbage collections a second", source: "runtime/metrics of " + who, lines: []line{
			{"", line1, below(func(s observe.Sample) float64 { return perSecond(s.Runtime.GCs, s.Length) })}}},
		{layer: "Runtime", title: "longest pause for a collection, ms", source: "runtime/metrics of " + who, lines: []line{
			{"", line1, below(func(s observe.Sample) float64 { return milliseconds(s.Runtime.GCPauses.Max) })}}},
		{layer: "Runtime", title: "goroutines' wait until they ran, ms", source: "runtime/metrics of " + who, lines: []line{
			{"p50", line1, below(func(s observe.Sample) float64 { return milliseconds(s.Runtime.Scheduling.P50) })},
			{"p99", line2, below(func(s observe.Sample) float64 { return milliseconds(s.Runtime.Scheduling.P99) })}}},
		{layer: "Runtime", title: "goroutines", source: "runtime/metrics of " + who, lines: []line{
			{"", line1, below(func(s observe.Sample) float64 { return float64(s.Runtime.Goroutines) })}}},
	}
	return append(strips, kernelStrips(under.Kernel, r.Server != nil, below)...)
}

// kernelStrips are those of the kernel. A load that this process works on itself has no TCP connections: see redisWhat.
func kernelStrips(k observe.KernelReport, tcp bool, of func(func(observe.Sample) float64) []point) []strip {
	queue := kernelStrip("wait for a processor, ms", k.RunQueue)
	if k.RunQueue.Source == observe.SourceSchedstat { // which knows the sum alone
		queue.lines = []line{{"mean", line1, of(func(s observe.Sample) float64 { return milliseconds(s.Kernel.RunQueue.Mean) })}}
	} else {
		queue.lines = []line{
			{"p50", line1, of(func(s observe.Sample) float64 { return milliseconds(s.Kernel.RunQueue.P50) })},
			{"p99", line2, of(func(s observe.Sample) float64 { return milliseconds(s.Kernel.RunQueue.P99) })}}
	}
	faults := kernelStrip("page faults a second", k.PageFaults)
	faults.lines = []line{{"", line1, of(func(s observe.Sample) float64 { return perSecond(s.Kernel.PageFaults, s.Length) })}}
	again := kernelStrip("TCP segments sent again, a second", k.Retransmits)
	again.lines = []line{{"", line1, of(func(s observe.Sample) float64 { return perSecond(s.Kernel.Retransmits, s.Length) })}}
	trip := kernelStrip("TCP round trip, ms", k.RTT)
	trip.lines = []line{
		{"p50", line1, of(func(s observe.Sample) float64 { return milliseconds(s.Kernel.RTT.P50) })},
		{"p99", line2, of(func(s observe.Sample) float64 { return milliseconds(s.Kernel.RTT.P99) })}}
	if !tcp {
		again.unknown = "the connections of this load are no TCP"
		trip.unknown = again.unknown
	}
	return []strip{queue, faults, trip, again}
}

func kernelStrip(title string, m observe.Metric) strip {
	s := strip{layer: "Kernel", title: title, source: string(m.Source)}
	if m.Scope != "" {
		s.source += " of " + m.Scope
	}
	if m.Source == observe.SourceNone || m.Source == "" {
		s.unknown = m.Why
		if s.unknown == "" {
			s.unknown = "it was not looked at"
		}
	} else if m.Why != "" {
		s.source += " (no tracepoint: " + strings.TrimPrefix(m.Why, "tracepoint: ") + ")"
	}
	return s
}

// latencySource says whose latency it is.
func (r *Recording) latencySource() string {
	if r.Suite == "relay" {
		return "each frame, from the publisher's write to a viewer's last byte"
	}
	return "each request or call"
}

// points are f of each sample, at the middle of its interval.
func points(t *observe.Timeline, shift time.Duration, f func(observe.Sample) float64) []point {
	xys := make([]point, 0, len(t.Samples))
	for _, s := range t.Samples {
		xys = append(xys, point{(shift + s.At - s.Length/2).Seconds(), f(s)})
	}
	return xys
}

func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// timeline is the picture of a recording: strips under each other, on one axis of time.
func (r *Recording) timeline() (picture, error) {
	strips := slices.DeleteFunc(r.strips(), func(s strip) bool { return s.unknown != "" || len(s.lines[0].points) == 0 })
	if len(strips) == 0 {
		return picture{}, nil
	}
	height := float64(len(strips) * (stripHeight + stripTitle))
	c, err := newCanvas(pictureWidth, height+timeMargin)
	if err != nil {
		return picture{}, err
	}
	left, last := 0.0, lastMoment(strips)
	for _, s := range strips {
		for _, t := range s.values(0).ticks {
			left = max(left, c.measure(tickSize, t.Label)+tickSpace)
		}
	}
	x := newAxis(0, last, left, pictureWidth-pictureRight-left, timeTicks)
	x.under(c, height, 3, "seconds since recording began")
	for i, s := range strips {
		top := float64(i*(stripHeight+stripTitle) + stripTitle)
		s.caption(c, top-7)
		if err := s.draw(c, x, s.values(top)); err != nil {
			return picture{}, err
		}
	}
	return newPicture(r.Suite+"-"+r.Key, r.Contender+" under load: "+r.What, describeStrips(strips), c)
}

// lastMoment is where the axis of time ends, which is after its beginning.
func lastMoment(strips []strip) float64 {
	last := 0.0
	for _, s := range strips {
		for _, l := range s.lines {
			for _, xy := range l.points {
				last = max(last, xy.x)
			}
		}
	}
	if last == 0 {
		return 1
	}
	return last
}

// values is the upright axis of a strip that begins so far below the canvas's edge.
func (s strip) values(top float64) axis {
	high := 0.0
	for _, l := range s.lines {
		for _, xy := range l.points {
			high = max(high, xy.y)
		}
	}
	if high == 0 {
		return newAxis(0, 1, top, stripHeight, valueTicks).upward()
	}
	return newAxis(0, high*1.06, top, stripHeight, valueTicks).upward()
}

// draw draws a strip's grid, whose upright lines are where the axis under the lowest has its times, and the lines over it.
func (s strip) draw(c *canvas, x, y axis) error {
	left, right := x.ends()
	top, bottom := y.ends()
	for _, t := range x.ticks {
		c.stroke(grid, 0.5, point{x.at(t.Value), top}, point{x.at(t.Value), bottom})
	}
	for _, t := range y.ticks {
		at := y.at(t.Value)
		c.stroke(grid, 0.5, point{left, at}, point{right, at})
		c.write(muted, tickSize, atEnd, point{left - tickSpace, at + middle(tickSize)}, t.Label)
	}
	for _, l := range s.lines {
		var corners []point
		for _, xy := range sinceZero(l.points) {
			if math.IsNaN(xy.y) || math.IsInf(xy.y, 0) {
				return fmt.Errorf("bench: %s: a value is %g", s.title, xy.y)
			}
			corners = append(corners, point{x.at(xy.x), y.at(xy.y)})
		}
		if len(corners) == 0 {
			continue
		}
		if len(s.lines) == 1 {
			under := append([]point{{corners[0].x, bottom}}, corners...)
			c.fill(shade, append(under, point{corners[len(corners)-1].x, bottom})...)
		}
		c.stroke(l.paint, 1.4, corners...)
	}
	return nil
}

// sinceZero is what is right of zero of a line: a server is recorded from before its load.
func sinceZero(line []point) []point {
	for i, p := range line {
		switch {
		case p.x < 0:
		case i == 0 || p.x == 0:
			return line[i:]
		default:
			before := line[i-1]
			y := before.y + (p.y-before.y)*-before.x/(p.x-before.x)
			return append([]point{{0, y}}, line[i:]...)
		}
	}
	return nil
}

// caption writes a strip's name above it, and those of its lines at its end, in their colours.
func (s strip) caption(c *canvas, y float64) {
	c.write(ink, labelSize, atStart, point{0, y}, s.layer+": "+s.title)
	x := float64(pictureWidth - pictureRight)
	for _, l := range slices.Backward(s.lines) {
		if l.name == "" {
			continue
		}
		c.write(l.paint, labelSize, atEnd, point{x, y}, "— "+l.name)
		x -= c.measure(labelSize, "— "+l.name) + 10
	}
}

// describeStrips is the picture in words: where each line was, mostly and at most.
func describeStrips(strips []strip) string {
	var b strings.Builder
	for _, s := range strips {
		for _, l := range s.lines {
			var values Series
			for _, xy := range l.points {
				values = append(values, xy.y)
			}
			name := strings.TrimSuffix(s.title+" "+l.name, " ")
			fmt.Fprintf(&b, "%s: %s: median %s, at most %s. ", s.layer, name, number(values.Median()), number(values.Max()))
		}
	}
	return strings.TrimSpace(b.String())
}

// roundTicks are 0 and so many round values above it, or up to twice as many.
type roundTicks float64

const (
	timeTicks  roundTicks = 4
	valueTicks roundTicks = 2
)

// Ticks implements ticker.
func (r roundTicks) Ticks(_, high float64) []chart.Tick {
	longest := high / float64(r)
	step := math.Pow(10, math.Floor(math.Log10(longest)))
	for _, times := range []float64{5, 2} {
		if longest >= times*step {
			step *= times
			break
		}
	}
	ticks := []chart.Tick{{Value: 0, Label: "0"}}
	for i := 1.0; i*step <= high && step > 0; i++ {
		ticks = append(ticks, chart.Tick{Value: i * step, Label: thousands(strconv.FormatFloat(i*step, 'g', 10, 64))})
	}
	return ticks
}
