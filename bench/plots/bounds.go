package plots

import (
	"bytes"
	"fmt"
	"math"
	"strings"
)

// The measures of the picture of bounds.
const (
	boundsHeight = 420
	plotTop      = 80.0
	plotBottom   = 350.0
	plotLeft     = 90.0
	plotRight    = 980.0
)

// What the second picture is drawn from, and what it says.
const (
	boundsHeading = "### The latency bound and its price"
	curveTitle    = "1 stream to 200 viewers: what the latency bound saves"
)

// Curve draws what a gigabyte costs over how late a frame is, a point for each bound.
func Curve(bounds []Bound, title string) []byte {
	dearest, latest := 0.0, 0.0
	var said []string
	for _, b := range bounds {
		dearest, latest = max(dearest, b.CPU), max(latest, b.High)
		said = append(said, fmt.Sprintf("%s: %.2f s, median %.1f ms, 99th percentile %.1f ms.", b.Name, b.CPU, b.Latency, b.High))
	}
	dearest, latest = math.Ceil(dearest*5)/5, math.Ceil(latest/20)*20
	x := func(ms float64) float64 { return plotLeft + ms/latest*(plotRight-plotLeft) }
	y := func(cpu float64) float64 { return plotBottom - cpu/dearest*(plotBottom-plotTop) }
	var b bytes.Buffer
	head(&b, boundsHeight, title, "a point for each bound: median latency; the line to the right: 99th percentile", strings.Join(said, " "))
	for i := 0; i <= 4; i++ {
		cpu, ms := dearest*float64(i)/4, latest*float64(i)/4
		fmt.Fprintf(&b, `  <line class="line" x1="%.0f" x2="%.0f" y1="%.0f" y2="%.0f" opacity="0.3"/>`, plotLeft, plotRight, y(cpu), y(cpu))
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" class="dim" text-anchor="end">%.2f</text>`, plotLeft-10, y(cpu)+5, cpu)
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" class="dim" text-anchor="middle">%.0f ms</text>`+"\n", x(ms), plotBottom+24, ms)
	}
	fmt.Fprintf(&b, `  <text x="30" y="66" class="dim">CPU s/GB</text><text x="%.0f" y="%.0f" class="dim" text-anchor="end">how late a frame is</text>`+"\n",
		plotRight, plotBottom+48)
	var points []string
	for _, p := range bounds {
		points = append(points, fmt.Sprintf("%.1f,%.1f", x(p.Latency), y(p.CPU)))
	}
	fmt.Fprintf(&b, `  <polyline class="curve" points="%s"/>`+"\n", strings.Join(points, " "))
	for i, p := range bounds {
		beside, below := x(p.High)+8, 5.0
		if i == 0 { // the next ones are close
			beside, below = x(p.Latency)-10, 24
		}
		fmt.Fprintf(&b, `  <line class="line" x1="%[1]f" x2="%[2]f" y1="%[3]f" y2="%[3]f"/><circle class="ours" cx="%[1]f" cy="%[3]f" r="6"/>`,
			x(p.Latency), x(p.High), y(p.CPU))
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" class="ink b">%s</text>`+"\n", beside, y(p.CPU)+below, inMillis(p.Name))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// inMillis writes a bound, such as 0s or 5ms, as the axis is labelled.
func inMillis(bound string) string {
	if bound == "0s" {
		return "0 ms"
	}
	return strings.Replace(bound, "ms", " ms", 1)
}
