package bench

import (
	"fmt"
	"html/template"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	ratioRow    = 32  // points of height for each figure
	ratioMargin = 46  // for the axis
	ratioBar    = 13  // height of a bar
	ratioRoom   = 1.9 // times the longest bar, for the number at its end
	leastRatio  = 0.5 // the axis reaches from here
	mostRatio   = 2   // to here at least
)

// ratios is the picture of a suite: a bar for each figure that has a rival.
func ratios(suite string, figures []Figure) (template.HTML, error) {
	var bars ratioBars
	for _, f := range figures {
		if f.Ratio != nil && f.Ratio.Min > 0 {
			bars = append(bars, f)
		}
	}
	if len(bars) == 0 {
		return "", nil
	}
	p := newPlot()
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ratioTicks{}
	p.X.Label.Text = "times better than the rival, on a logarithmic scale; thin lines are from the smallest to the largest round"
	p.X.Label.Padding = vg.Points(3)
	p.Y.Tick.Marker = bars
	p.Y.Tick.Length, p.Y.LineStyle.Width = 0, 0
	p.Y.Tick.Label.Color = ink.rgb
	p.Add(bars)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = bars.DataRange()
	c := vgsvg.New(vg.Points(pictureWidth), vg.Points(float64(len(bars)*ratioRow+ratioMargin)))
	p.Draw(draw.New(c))
	return picture("ratios-"+suite, "Suite "+suite+": ratios to the rivals", bars.describe(), c)
}

// ratioBars draws them, the first at the top.
type ratioBars []Figure

// describe is the picture in words.
func (b ratioBars) describe() string {
	var s strings.Builder
	for _, f := range b {
		fmt.Fprintf(&s, "%s: %s is %s times as good as %s. ", f.What, f.Contender, f.Ratio, f.Rival.Contender)
	}
	return strings.TrimSpace(s.String())
}

// DataRange implements plot.DataRanger.
func (b ratioBars) DataRange() (xmin, xmax, ymin, ymax float64) {
	xmin, xmax = leastRatio, mostRatio
	for _, f := range b {
		xmin, xmax = min(xmin, f.Ratio.Min/1.2), max(xmax, f.Ratio.Max)
	}
	return xmin, xmax * ratioRoom, -0.5, float64(len(b)) - 0.5
}

// Ticks implements plot.Ticker for the names: what is done, and the rival under it.
func (b ratioBars) Ticks(_, _ float64) []plot.Tick {
	ticks := make([]plot.Tick, len(b))
	for i, f := range b {
		ticks[i] = plot.Tick{Value: b.y(i), Label: f.What + "\nbeside " + f.Rival.Contender}
	}
	return ticks
}

func (b ratioBars) y(i int) float64 { return float64(len(b) - 1 - i) }

// Plot implements plot.Plotter.
func (b ratioBars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, t := range (ratioTicks{}).Ticks(p.X.Min, p.X.Max) {
		if t.Label != "" {
			c.StrokeLine2(stroke(grid, 0.5), x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
		}
	}
	for i, f := range b {
		mid, half := y(b.y(i)), vg.Points(ratioBar/2.0)
		how := paintOf(f.Verdict())
		from, to := x(min(1, f.Ratio.Median)), x(max(1, f.Ratio.Median))
		c.FillPolygon(how.rgb, []vg.Point{
			{X: from, Y: mid - half}, {X: to, Y: mid - half}, {X: to, Y: mid + half}, {X: from, Y: mid + half},
		})
		low, high := x(f.Ratio.Min), x(f.Ratio.Max)
		c.StrokeLine2(stroke(ink, 1), low, mid, high, mid)
		for _, end := range []vg.Length{low, high} {
			c.StrokeLine2(stroke(ink, 1), end, mid-half/2, end, mid+half/2)
		}
		style, end := label(ink, labelSize, text.XLeft, text.YCenter), max(high, to)+vg.Points(6)
		c.FillText(style, vg.Point{X: end, Y: mid}, number(f.Ratio.Median)+"×"+word(f.Verdict()))
	}
	c.StrokeLine2(stroke(ink, 1), x(1), c.Min.Y, x(1), c.Max.Y)
}

// word is what is written beside a bar, so that its colour is not all that tells.
func word(verdict string) string {
	if verdict == "ahead" {
		return ""
	}
	return "  " + verdict
}

func paintOf(verdict string) paint {
	switch verdict {
	case "lost":
		return lost
	case "even":
		return even
	}
	return ahead
}

// ratioTicks are at 1, 2 and 5 of each power of ten, or at the powers alone where there are many.
type ratioTicks struct{}

// Ticks implements plot.Ticker.
func (ratioTicks) Ticks(least, most float64) []plot.Tick {
	steps := []float64{1, 2, 5}
	if most/least > 2000 {
		steps = []float64{1}
	}
	var ticks []plot.Tick
	for power := math.Floor(math.Log10(least)); power <= math.Log10(most); power++ {
		for _, s := range steps {
			if v := s * math.Pow(10, power); v >= least && v <= most {
				ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.4g×", v)})
			}
		}
	}
	return ticks
}
