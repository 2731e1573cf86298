package files

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
)

// The chart's measures, in its own units.
const (
	chartWidth = 1040
	barStart   = 300 // behind the contenders' names
	barLongest = 620 // leaves room for the value
	barHeight  = 16
	barStep    = 22
	groupGap   = 56 // between two groups, with the case's title in it
	chartTop   = 62
)

const chartHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" font-family="system-ui, sans-serif" font-size="14" role="img" aria-labelledby="t d">
  <title id="t">CPU seconds that a server needs to deliver a gigabyte</title>
  <desc id="d">%[3]s</desc>
  <style>
    .bg{fill:#fbfaf7}.ink{fill:#22303c}.dim{fill:#5b6b78}.b{font-weight:600}.ours{fill:#2b6c99}.nginx{fill:#e0912f}.other{fill:#a9b4bc}
    @media (prefers-color-scheme: dark){.bg{fill:#161c22}.ink{fill:#e8eef2}.dim{fill:#9fb0bd}.ours{fill:#3f86b5}.other{fill:#5b6b78}}
  </style>
  <rect class="bg" width="%[1]d" height="%[2]d" rx="12"/>
  <text x="30" y="36" class="ink"><tspan class="b">CPU seconds of the server a delivered gigabyte</tspan><tspan class="dim" dx="12">less is better; each group has a scale of its own</tspan></text>
`

// Chart draws what WriteTable says about CPU seconds a gigabyte: a group of
// bars for each case, as SVG.
func (p Plan) Chart(turns []Turn) []byte {
	var body bytes.Buffer
	var said []string
	y := chartTop
	for _, c := range p.Cases {
		fmt.Fprintf(&body, "  <text x=\"30\" y=\"%d\" class=\"ink b\">%s</text>\n", y+14, html.EscapeString(c.Title()))
		y += 28
		costs := make([]float64, len(p.Contenders))
		longest := 0.0
		for i, who := range p.Contenders {
			costs[i] = series(turns, c, who.Name(), Turn.cpuPerGB).Median()
			if !math.IsNaN(costs[i]) && !math.IsInf(costs[i], 0) {
				longest = max(longest, costs[i])
			}
		}
		for i, who := range p.Contenders {
			if !(costs[i] <= longest) {
				continue // took no part
			}
			writeBar(&body, y, who, costs[i], costs[i]/max(longest, 1e-9))
			said = append(said, fmt.Sprintf("%s, %s: %.3f.", c.Title(), who.Name(), costs[i]))
			y += barStep
		}
		y += groupGap - 28
	}
	var all bytes.Buffer
	fmt.Fprintf(&all, chartHead, chartWidth, y, html.EscapeString(strings.Join(said, " ")))
	all.Write(body.Bytes())
	all.WriteString("</svg>\n")
	return all.Bytes()
}

// writeBar draws one contender's bar, of that part of the longest.
func writeBar(b *bytes.Buffer, y int, who Contender, cost, part float64) {
	class := "other"
	switch {
	case strings.Contains(who.Key(), "millrace"), who.Key() == "copy":
		class = "ours"
	case strings.HasPrefix(who.Key(), "nginx"):
		class = "nginx"
	}
	text, length := y+barHeight-3, max(barLongest*part, 1)
	fmt.Fprintf(b, "  <text x=\"%d\" y=\"%d\" class=\"ink\" text-anchor=\"end\">%s</text>", barStart-10, text,
		html.EscapeString(who.Name()))
	fmt.Fprintf(b, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"%d\" rx=\"3\"/>", class, barStart, y,
		length, barHeight)
	fmt.Fprintf(b, "<text x=\"%.0f\" y=\"%d\" class=\"dim\">%.3f</text>\n", barStart+length+8, text, cost)
}
