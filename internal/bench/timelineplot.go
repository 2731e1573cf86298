package bench

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/internal/observe"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	stripHeight = 50 // points, of one strip's data
	stripTitle  = 23 // above it
	timeMargin  = 34 // for the axis under the last
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
	points plotter.XYs
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
	load := func(f func(observe.Sample) float64) plotter.XYs { return points(r.Load, 0, f) }
	shift := under.Began.Sub(r.Load.Began)
	below := func(f func(observe.Sample) float64) plotter.XYs { return points(under, shift, f) }
	strips := []strip{
		{layer: "Load", title: r.Operation + " a second", source: "counted by the clients", lines: []line{
			{"", line1, load(func(s observe.Sample) float64 { return s.Load.Rate })}}},
		{layer: "Load", title: "latency, ms", source: r.latencySource(), lines: []line{
			{"p50", line1, load(func(s observe.Sample) float64 { return milliseconds(s.Load.P50) })},
			{"p99", line2, load(func(s observe.Sample) float64 { return milliseconds(s.Load.P99) })}}},
		{layer: "Runtime", title: "heap, MiB", source: "runtime/metrics of " + who, lines: []line{
			{"", line1, below(func(s observe.Sample) float64 { return float64(s.Runtime.HeapBytes) / (1 << 20) })}}},
		{layer: "Runtime", title: "garbage collections a second", source: "runtime/metrics of " + who, lines: []line{
			{"", line1, below(func(s observe.Sample) float64 { return perSecond(s.Runtime.GCs, s.Length) })}}},
		{layer: "Runtime", title: "goroutines", source: "runtime/metrics of " + who, lines: []line{
			{"", line1, below(func(s observe.Sample) float64 { return float64(s.Runtime.Goroutines) })}}},
	}
	return append(strips, kernelStrips(under.Kernel, r.Server != nil, below)...)
}

// kernelStrips are those of the kernel. A load that this process works on itself has no TCP connections: see redisWhat.
func kernelStrips(k observe.KernelReport, tcp bool, of func(func(observe.Sample) float64) plotter.XYs) []strip {
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
	if !tcp {
		again.unknown = "the connections of this load are no TCP"
	}
	return []strip{queue, faults, again}
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
		s.source += " (no tracepoint: " + m.Why + ")"
	}
	return s
}

// latencySource says whose latency it is.
func (r *Recording) latencySource() string {
	if r.Suite == "relay" {
		return "a probe's records, through the same relay"
	}
	return "each request or call"
}

// points are f of each sample, at the middle of its interval.
func points(t *observe.Timeline, shift time.Duration, f func(observe.Sample) float64) plotter.XYs {
	xys := make(plotter.XYs, 0, len(t.Samples))
	for _, s := range t.Samples {
		xys = append(xys, plotter.XY{X: (shift + s.At - s.Length/2).Seconds(), Y: f(s)})
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
func (r *Recording) timeline(id string) (template.HTML, error) {
	strips := slices.DeleteFunc(r.strips(), func(s strip) bool { return s.unknown != "" || len(s.lines[0].points) == 0 })
	if len(strips) == 0 {
		return "", nil
	}
	plots := make([][]*plot.Plot, len(strips))
	last := lastMoment(strips)
	for i, s := range strips {
		p, err := s.plot(i == len(strips)-1, last)
		if err != nil {
			return "", err
		}
		plots[i] = []*plot.Plot{p}
	}
	height := float64(len(strips)*(stripHeight+stripTitle) + timeMargin)
	c := vgsvg.New(vg.Points(pictureWidth), vg.Points(height))
	all := draw.New(c)
	tiles := draw.Tiles{Rows: len(strips), Cols: 1, PadTop: vg.Points(stripTitle), PadY: vg.Points(stripTitle), PadRight: vg.Points(8)}
	for i, row := range plot.Align(plots, tiles, all) {
		plots[i][0].Draw(row[0])
		strips[i].caption(row[0])
	}
	return picture(id, r.Contender+" under load: "+r.What, describeStrips(strips), c)
}

func lastMoment(strips []strip) float64 {
	last := 0.0
	for _, s := range strips {
		for _, l := range s.lines {
			for _, xy := range l.points {
				last = max(last, xy.X)
			}
		}
	}
	return last
}

func (s strip) plot(lowest bool, last float64) (*plot.Plot, error) {
	p := newPlot()
	high := 0.0
	for _, l := range s.lines {
		for _, xy := range l.points {
			high = max(high, xy.Y)
		}
	}
	p.Add(rules{})
	for _, l := range s.lines {
		drawn, err := plotter.NewLine(l.points)
		if err != nil {
			return nil, fmt.Errorf("bench: %s: %w", s.title, err)
		}
		drawn.LineStyle = stroke(l.paint, 1.4)
		if len(s.lines) == 1 {
			p.Add(area(l.points))
		}
		p.Add(drawn)
	}
	p.X.Min, p.X.Max = 0, last
	p.Y.Min, p.Y.Max = 0, high*1.06
	if high == 0 {
		p.Y.Max = 1
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = timeTicks, valueTicks
	p.Y.LineStyle.Width, p.Y.Tick.Length, p.Y.Padding = 0, 0, vg.Points(2)
	p.X.Padding = 0
	if lowest {
		p.X.Label.Text = "seconds since recording began"
		p.X.Tick.Length = vg.Points(3)
	} else {
		p.HideX()
	}
	return p, nil
}

// rules are the grid of a strip. Its vertical lines are where the lowest strip has its times, which the others don't tell.
type rules struct{}

// Plot implements plot.Plotter.
func (rules) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range timeTicks.Ticks(p.X.Min, p.X.Max) {
		c.StrokeLine2(stroke(grid, 0.5), x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
	for _, t := range valueTicks.Ticks(p.Y.Min, p.Y.Max) {
		c.StrokeLine2(stroke(grid, 0.5), c.Min.X, y(t.Value), c.Max.X, y(t.Value))
	}
}

// area is what is under a line.
type area plotter.XYs

// Plot implements plot.Plotter.
func (a area) Plot(c draw.Canvas, p *plot.Plot) {
	if len(a) == 0 {
		return
	}
	x, y := p.Transforms(&c)
	corners := []vg.Point{{X: x(a[0].X), Y: y(0)}}
	for _, xy := range a {
		corners = append(corners, vg.Point{X: x(xy.X), Y: y(xy.Y)})
	}
	c.FillPolygon(shade.rgb, append(corners, vg.Point{X: x(a[len(a)-1].X), Y: y(0)}))
}

// caption writes a strip's name above it, and those of its lines at its end, in their colours.
func (s strip) caption(c draw.Canvas) {
	y := c.Max.Y + vg.Points(5)
	bold := label(ink, labelSize, text.XLeft, text.YBottom)
	c.FillText(bold, vg.Point{X: 0, Y: y}, s.layer+": "+s.title)
	x := c.Max.X
	for _, l := range slices.Backward(s.lines) {
		if l.name == "" {
			continue
		}
		style := label(l.paint, labelSize, text.XRight, text.YBottom)
		c.FillText(style, vg.Point{X: x, Y: y}, "— "+l.name)
		x -= style.Width("— "+l.name) + vg.Points(10)
	}
}

// describeStrips is the picture in words: where each line was, mostly and at most.
func describeStrips(strips []strip) string {
	var b strings.Builder
	for _, s := range strips {
		for _, l := range s.lines {
			var values Series
			for _, xy := range l.points {
				values = append(values, xy.Y)
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

// Ticks implements plot.Ticker.
func (r roundTicks) Ticks(_, high float64) []plot.Tick {
	longest := high / float64(r)
	step := math.Pow(10, math.Floor(math.Log10(longest)))
	for _, times := range []float64{5, 2} {
		if longest >= times*step {
			step *= times
			break
		}
	}
	ticks := []plot.Tick{{Value: 0, Label: "0"}}
	for i := 1.0; i*step <= high && step > 0; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: thousands(strconv.FormatFloat(i*step, 'g', 10, 64))})
	}
	return ticks
}
