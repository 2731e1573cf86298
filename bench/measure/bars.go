package measure

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
)

// Bars are a bar chart: groups of bars under each other, each with a scale of its own.
type Bars struct {
	Title  string
	Note   string // behind the title: what is better, and so on
	Groups []BarGroup
}

// A BarGroup is a case, with a bar for each contender.
type BarGroup struct {
	Title string
	Bars  []Bar
}

// A Bar is a contender's value. One that is no number is left out.
type Bar struct {
	Name  string
	Value float64
	Side  Side
}

// A Side is whose bar it is: that decides about its colour.
type Side int

const (
	Others Side = iota
	Ours
	Rival // the one to beat
)

// The chart's measures, in its own units.
const (
	chartWidth = 1040
	barStart   = 300 // behind the contenders' names
	barLongest = 620 // leaves room for the value
	barHeight  = 16
	barStep    = 22
	groupHead  = 28
	groupGap   = 28
	chartTop   = 62
)

const chartHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" font-family="system-ui, sans-serif" font-size="14" role="img" aria-labelledby="t d">
  <title id="t">%[3]s</title>
  <desc id="d">%[5]s</desc>
  <style>
    .bg{fill:#fbfaf7}.ink{fill:#22303c}.dim{fill:#5b6b78}.b{font-weight:600}.ours{fill:#2b6c99}.rival{fill:#e0912f}.others{fill:#a9b4bc}
    @media (prefers-color-scheme: dark){.bg{fill:#161c22}.ink{fill:#e8eef2}.dim{fill:#9fb0bd}.ours{fill:#3f86b5}.others{fill:#5b6b78}}
  </style>
  <rect class="bg" width="%[1]d" height="%[2]d" rx="12"/>
  <text x="30" y="36" class="ink"><tspan class="b">%[3]s</tspan><tspan class="dim" dx="12">%[4]s</tspan></text>
`

// SVG draws the chart.
func (c Bars) SVG() []byte {
	var body bytes.Buffer
	var said []string
	y := chartTop
	for _, g := range c.Groups {
		fmt.Fprintf(&body, "  <text x=\"30\" y=\"%d\" class=\"ink b\">%s</text>\n", y+14, html.EscapeString(g.Title))
		y += groupHead
		longest := g.longest()
		for _, b := range g.Bars {
			if !b.isNumber() {
				continue
			}
			b.write(&body, y, b.Value/longest)
			said = append(said, fmt.Sprintf("%s, %s: %.3g.", g.Title, b.Name, b.Value))
			y += barStep
		}
		y += groupGap
	}
	var all bytes.Buffer
	fmt.Fprintf(&all, chartHead, chartWidth, y, html.EscapeString(c.Title), html.EscapeString(c.Note),
		html.EscapeString(strings.Join(said, " ")))
	all.Write(body.Bytes())
	all.WriteString("</svg>\n")
	return all.Bytes()
}

func (g BarGroup) longest() float64 {
	longest := 1e-9
	for _, b := range g.Bars {
		if b.isNumber() {
			longest = max(longest, b.Value)
		}
	}
	return longest
}

func (b Bar) isNumber() bool { return !math.IsNaN(b.Value) && !math.IsInf(b.Value, 0) }

// write draws the bar, of that part of the longest.
func (b Bar) write(w *bytes.Buffer, y int, part float64) {
	text, length := y+barHeight-3, max(barLongest*part, 1)
	fmt.Fprintf(w, "  <text x=\"%d\" y=\"%d\" class=\"ink\" text-anchor=\"end\">%s</text>", barStart-10, text,
		html.EscapeString(b.Name))
	class := [...]string{Others: "others", Ours: "ours", Rival: "rival"}[b.Side]
	fmt.Fprintf(w, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"%d\" rx=\"3\"/>", class, barStart, y,
		length, barHeight)
	fmt.Fprintf(w, "<text x=\"%.0f\" y=\"%d\" class=\"dim\">%s</text>\n", barStart+length+8, text, number(b.Value))
}
