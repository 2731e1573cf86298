package plots

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"
)

// The measures of the picture of ratios, in its own units.
const (
	width     = 1040
	top       = 96
	step      = 24
	barHeight = 15
	labelEnd  = 452 // what was done is left of it
	least     = 0.25
	most      = 20.0
	left      = 470.0 // where the ratio is least
	right     = 985.0 // and where it is most
	letter    = 7.6   // about as wide as most letters are
)

const style = `<style>
    .bg{fill:#fbfaf7}.ink{fill:#22303c}.dim{fill:#5b6b78}.b{font-weight:600}.ours{fill:#2b6c99}.lost{fill:#e0912f}.in{fill:#fff}
    .line{stroke:#5b6b78;stroke-width:1}.even{stroke:#22303c;stroke-width:1.5}.curve{fill:none;stroke:#2b6c99;stroke-width:2.5}
    @media (prefers-color-scheme: dark){.bg{fill:#161c22}.ink{fill:#e8eef2}.dim{fill:#9fb0bd}.ours{fill:#3f86b5}
      .even{stroke:#e8eef2}.curve{stroke:#3f86b5}}
  </style>`

func head(b *bytes.Buffer, height int, title, note, said string) {
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" font-family="system-ui, sans-serif" font-size="14" role="img" aria-labelledby="t d">
  <title id="t">%[3]s</title>
  <desc id="d">%[5]s</desc>
  %[6]s
  <rect class="bg" width="%[1]d" height="%[2]d" rx="12"/>
  <text x="30" y="38" class="ink"><tspan class="b">%[3]s</tspan><tspan class="dim" dx="12">%[4]s</tspan></text>
`, width, height, html.EscapeString(title), html.EscapeString(note), html.EscapeString(said), style)
}

// Ratios draws a bar for each row: to the right where ours is better, to the left where it is not.
func Ratios(rows []Row) []byte {
	var said []string
	for _, r := range rows {
		said = append(said, fmt.Sprintf("%s: %.2f times.", r.Work, r.Ratio))
	}
	height := top + step*len(rows) + 24
	var b bytes.Buffer
	head(&b, height, "How many times better than the rival", "logarithmic; orange: we lose", strings.Join(said, " "))
	for _, tick := range []float64{0.5, 1, 2, 5, 10, most} {
		class := "line"
		if tick == 1 {
			class = "even"
		}
		fmt.Fprintf(&b, `  <line class="%s" x1="%.0f" x2="%.0f" y1="%d" y2="%d" opacity="0.25"/>`, class, at(tick), at(tick), top-8, height-18)
		fmt.Fprintf(&b, `<text x="%.0f" y="%d" class="dim" text-anchor="middle">%gx</text>`+"\n", at(tick), top-16, tick)
	}
	for i, r := range rows {
		y := top + i*step
		from, to, class, anchor, beside := at(1), at(r.Ratio), "ours", "start", 6.0
		if r.Ratio < 1 {
			from, to, class, anchor, beside = to, from, "lost", "end", -6
		}
		fmt.Fprintf(&b, `  <text x="%d" y="%d" class="ink" text-anchor="end">%s</text>`, labelEnd, y+12, html.EscapeString(short(r.Work)))
		fmt.Fprintf(&b, `<rect class="%s" x="%.0f" y="%d" width="%.0f" height="%d" rx="3"/>`, class, from, y, max(to-from, 1), barHeight)
		who, figure, behind := "dim", "dim", at(r.Ratio)+44
		switch {
		case r.Ratio < 1:
			figure, behind = "lost b", at(1)+8 // the bar alone may be too short to be seen
		case behind+letter*float64(len(r.who())) > width: // then it is in the bar
			who, behind = "in", at(1)+8
		}
		fmt.Fprintf(&b, `<text x="%.0f" y="%d" class="%s" text-anchor="%s">%.3g</text>`, at(r.Ratio)+beside, y+12, figure, anchor, r.Ratio)
		fmt.Fprintf(&b, `<text x="%.0f" y="%d" class="%s" opacity="0.8">%s</text>`+"\n", behind, y+12, who, html.EscapeString(r.who()))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// who is the rival, without its figure.
func (r Row) who() string {
	name, _, ok := strings.Cut(r.Rival, ":")
	if !ok {
		return ""
	}
	if len(name) > 28 {
		name, _, _ = strings.Cut(name, ",")
	}
	return name
}

// at is where a ratio is on the axis.
func at(ratio float64) float64 {
	part := math.Log(min(max(ratio, least), most)/least) / math.Log(most/least)
	return math.Round(left + part*(right-left))
}

// short cuts a description to what fits beside a bar.
func short(s string) string {
	const most = 62
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}
