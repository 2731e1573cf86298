package bench

import (
	"math"
	"strings"

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
)

// unit is how many of the drawing library's units are a point. It counts places and widths in whole ones, which are too
// coarse for thin lines if they are points.
const unit = 10

// A canvas is drawn on, in points from its upper left corner.
type canvas struct {
	to            chart.Renderer
	ruler         chart.Renderer // measures text, and nothing is drawn on it: what has no font leaves that to the picture
	width, height float64
}

// A point is a place on a canvas, or a value of a line in its own units.
type point struct{ x, y float64 }

func newCanvas(width, height float64) (*canvas, error) {
	c := &canvas{width: width, height: height}
	for _, r := range []*chart.Renderer{&c.to, &c.ruler} {
		var err error
		if *r, err = chart.SVG(units(width), units(height)); err != nil {
			return nil, err
		}
		(*r).SetDPI(72) // so that a font's points are a canvas's
	}
	font, err := chart.GetDefaultFont()
	if err != nil {
		return nil, err
	}
	c.ruler.SetFont(font)
	return c, nil
}

func units(points float64) int { return int(math.Round(points * unit)) }

// stroke draws a line through the corners.
func (c *canvas) stroke(p paint, width float64, corners ...point) {
	c.to.ResetStyle()
	c.to.SetStrokeColor(p.rgb)
	c.to.SetStrokeWidth(width * unit)
	c.path(corners)
	c.to.Stroke()
}

// fill paints what is between the corners.
func (c *canvas) fill(p paint, corners ...point) {
	c.to.ResetStyle()
	c.to.SetFillColor(p.rgb)
	c.path(corners)
	c.to.Close()
	c.to.Fill()
}

func (c *canvas) path(corners []point) {
	for i, at := range corners {
		if i == 0 {
			c.to.MoveTo(units(at.x), units(at.y))
		} else {
			c.to.LineTo(units(at.x), units(at.y))
		}
	}
}

// write draws a text whose start, middle or end is at a place, on the line under its letters.
func (c *canvas) write(p paint, size float64, a anchor, at point, s string) {
	c.to.ResetStyle()
	c.to.SetFontColor(p.anchored(a))
	c.to.SetFontSize(size * unit)
	c.to.Text(escape(s), units(at.x), units(at.y)) // the library does not escape
}

// middle is how far under its middle a text's letters stand.
func middle(size float64) float64 { return 0.35 * size }

// widestFont is how much wider a reader's font may be than the one that texts are measured with.
const widestFont = 1.06

// measure is about how wide a text is; it is drawn in whatever font the reader has. It is measured in points: a face as
// large as units ask for takes megabytes.
func (c *canvas) measure(size float64, s string) float64 {
	c.ruler.SetFontSize(size)
	box := c.ruler.MeasureText(s)
	return float64(box.Width()) * widestFont
}

// svg is what was drawn, without the element around it.
func (c *canvas) svg() (string, bool, error) {
	var drawn strings.Builder
	if err := c.to.Save(&drawn); err != nil {
		return "", false, err
	}
	_, body, ok := strings.Cut(drawn.String(), ">")
	return body, ok, nil
}

// A ticker finds the values that an axis names.
type ticker interface {
	Ticks(least, most float64) []chart.Tick
}

// An axis is where values are on a canvas, from left to right or, if its range descends, from below.
type axis struct {
	values chart.ContinuousRange // in units
	scale  func(float64) float64
	start  float64 // the least coordinate, in points
	ticks  []chart.Tick
}

// newAxis is an axis of so many points, of which start is the first. It needs least < most.
func newAxis(least, most, start, length float64, t ticker) axis {
	values := chart.ContinuousRange{Min: least, Max: most, Domain: units(length)}
	return axis{values, func(v float64) float64 { return v }, start, t.Ticks(least, most)}
}

// logarithmic is the axis with the logarithms of its values as far from each other as the values were. It needs 0 < least.
// The library's own logarithmic range has no place for what is less than one.
func (a axis) logarithmic() axis {
	a.scale, a.values.Min, a.values.Max = math.Log10, math.Log10(a.values.Min), math.Log10(a.values.Max)
	return a
}

// upward is the axis with its least value below.
func (a axis) upward() axis {
	a.values.Descending = true
	return a
}

// at is where a value is.
func (a axis) at(v float64) float64 { return a.start + float64(a.values.Translate(a.scale(v)))/unit }

// ends are where an axis begins and ends, the lesser coordinate first.
func (a axis) ends() (from, to float64) { return a.start, a.start + float64(a.values.Domain)/unit }

// under draws an axis under a picture's data, its values and what they are.
func (a axis) under(c *canvas, y, tick float64, title string) {
	from, to := a.ends()
	c.stroke(grid, 0.75, point{from, y}, point{to, y})
	for _, t := range a.ticks {
		x := a.at(t.Value)
		c.stroke(grid, 0.5, point{x, y}, point{x, y + tick})
		c.write(muted, tickSize, atMiddle, point{x, y + tick + tickSize}, t.Label)
	}
	c.write(muted, tickSize, atMiddle, point{(from + to) / 2, y + tick + 2*tickSize + 4}, title)
}

// An anchor is the part of a text that is at its place.
type anchor uint8

const (
	atStart anchor = iota
	atMiddle
	atEnd
)

// anchored is a paint's colour for a text, which says the anchor, too: the library has none, and measures another font than
// the reader's. Like the paint, it is replaced in the picture.
func (p paint) anchored(a anchor) drawing.Color {
	rgb := p.rgb
	rgb.R += uint8(a)
	return rgb
}
