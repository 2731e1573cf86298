package bench

import (
	"fmt"
	"math"
	"strings"

	"github.com/wcharczuk/go-chart/v2"
)

const (
	ratioRow    = 32  // points of height for each figure
	ratioMargin = 40  // for the axis
	ratioAxis   = 5   // of it between the rows and the axis
	ratioNames  = 430 // at most, for the names
	ratioBar    = 13  // height of a bar
	ratioRoom   = 1.9 // times the longest bar, for the number at its end
	leastRatio  = 0.5 // the axis reaches from here
	mostRatio   = 2   // to here at least
)

// ratios is the picture of a suite: a bar for each figure that has a rival.
func ratios(suite string, figures []Figure) (picture, error) {
	var bars ratioBars
	for _, f := range figures {
		if f.Ratio != nil && f.Ratio.Min > 0 {
			bars = append(bars, f)
		}
	}
	if len(bars) == 0 {
		return picture{}, nil
	}
	height := float64(len(bars) * ratioRow)
	c, err := newCanvas(pictureWidth, height+ratioMargin)
	if err != nil {
		return picture{}, err
	}
	least, most := bars.bounds()
	left := bars.names(c)
	x := newAxis(least, most, left, pictureWidth-pictureRight-left, ratioTicks{}).logarithmic()
	x.under(c, height+ratioAxis, 8,
		"times better than the rival, on a logarithmic scale; thin lines are from the smallest to the largest round")
	bars.draw(c, x)
	return newPicture("ratios-"+suite, "Suite "+suite+": ratios to the rivals", bars.describe(), c)
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

// bounds are what the axis reaches from and to.
func (b ratioBars) bounds() (least, most float64) {
	least, most = leastRatio, mostRatio
	for _, f := range b {
		least, most = min(least, f.Ratio.Min/1.2), max(most, f.Ratio.Max)
	}
	return least, most * ratioRoom
}

// names writes beside each row what is done, and the rival under it. It returns where the bars may begin.
func (b ratioBars) names(c *canvas) (left float64) {
	for _, f := range b {
		left = max(left, c.measure(tickSize, f.What), c.measure(tickSize, beside(f)))
	}
	left = min(left+tickSpace, ratioNames)
	for i, f := range b {
		c.write(ink, tickSize, atEnd, point{left - tickSpace, b.y(i) - 1.5}, f.What)
		c.write(ink, tickSize, atEnd, point{left - tickSpace, b.y(i) - 1.5 + tickSize}, beside(f))
	}
	return left
}

func beside(f Figure) string { return "beside " + f.Rival.Contender }

// y is the middle of a row.
func (b ratioBars) y(i int) float64 { return (float64(i) + 0.5) * ratioRow }

// draw draws the bars, from one to the median, and lines from the smallest round to the largest.
func (b ratioBars) draw(c *canvas, x axis) {
	bottom := float64(len(b) * ratioRow)
	for _, t := range x.ticks {
		c.stroke(grid, 0.5, point{x.at(t.Value), 0}, point{x.at(t.Value), bottom})
	}
	for i, f := range b {
		mid, half := b.y(i), ratioBar/2.0
		from, to := x.at(min(1, f.Ratio.Median)), x.at(max(1, f.Ratio.Median))
		c.fill(paintOf(f.Verdict()),
			point{from, mid - half}, point{to, mid - half}, point{to, mid + half}, point{from, mid + half})
		low, high := x.at(f.Ratio.Min), x.at(f.Ratio.Max)
		c.stroke(ink, 1, point{low, mid}, point{high, mid})
		for _, end := range []float64{low, high} {
			c.stroke(ink, 1, point{end, mid - half/2}, point{end, mid + half/2})
		}
		at := point{max(high, to) + 6, mid + middle(labelSize)}
		c.write(ink, labelSize, atStart, at, number(f.Ratio.Median)+"×"+word(f.Verdict()))
	}
	c.stroke(ink, 1, point{x.at(1), 0}, point{x.at(1), bottom})
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

// Ticks implements ticker.
func (ratioTicks) Ticks(least, most float64) []chart.Tick {
	steps := []float64{1, 2, 5}
	if most/least > 2000 {
		steps = []float64{1}
	}
	var ticks []chart.Tick
	for power := math.Floor(math.Log10(least)); power <= math.Log10(most); power++ {
		for _, s := range steps {
			if v := s * math.Pow(10, power); v >= least && v <= most {
				ticks = append(ticks, chart.Tick{Value: v, Label: fmt.Sprintf("%.4g×", v)})
			}
		}
	}
	return ticks
}
