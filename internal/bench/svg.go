package bench

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"html/template"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A paint is a colour by what it means. In a drawing it is a colour that nothing else has, and in the picture a property of
// the page's style, so that a picture is as readable on a dark page as on a light one.
type paint struct {
	rgb  color.RGBA
	name string // of the property
}

var (
	ink    = paint{color.RGBA{1, 2, 3, 255}, "--ink"}
	muted  = paint{color.RGBA{1, 2, 4, 255}, "--muted"}
	grid   = paint{color.RGBA{1, 2, 5, 255}, "--grid"}
	ahead  = paint{color.RGBA{1, 2, 6, 255}, "--ahead"}
	even   = paint{color.RGBA{1, 2, 7, 255}, "--even"}
	lost   = paint{color.RGBA{1, 2, 8, 255}, "--lost"}
	line1  = paint{color.RGBA{1, 2, 9, 255}, "--line1"}
	line2  = paint{color.RGBA{1, 2, 10, 255}, "--line2"}
	shade  = paint{color.RGBA{1, 2, 11, 255}, "--shade"}
	paints = []paint{ink, muted, grid, ahead, even, lost, line1, line2, shade}
)

// repaint replaces the colours by properties.
var repaint = func() *strings.Replacer {
	var pairs []string
	for _, p := range paints {
		pairs = append(pairs, fmt.Sprintf("#%02X%02X%02X", p.rgb.R, p.rgb.G, p.rgb.B), "var("+p.name+")")
	}
	// The drawing library measures text in Liberation Sans; these are as wide where that is not installed.
	pairs = append(pairs, "font-family:Liberation Sans", "font-family:Liberation Sans,Arial,Helvetica,sans-serif")
	return strings.NewReplacer(pairs...)
}()

// Sizes of what is drawn.
const (
	pictureWidth = 720 // points; the page scales it
	labelSize    = 10
	tickSize     = 9
)

// picture is a drawing with a name and a description for those who do not see it, to be put into a page.
func picture(id, title, description string, c *vgsvg.Canvas) (template.HTML, error) {
	var drawn bytes.Buffer
	if _, err := c.WriteTo(&drawn); err != nil {
		return "", err
	}
	_, body, ok := strings.Cut(drawn.String(), "<svg ")
	_, body, closed := strings.Cut(body, ">")
	if !ok || !closed {
		return "", fmt.Errorf("bench: no drawing of %q", title)
	}
	w, h := c.Size()
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 %.5g %.5g" role="img" `+
		`aria-labelledby="%s-t %s-d">`+"\n"+`<title id="%s-t">%s</title>`+"\n"+`<desc id="%s-d">%s</desc>`,
		w.Points(), h.Points(), id, id, id, escape(title), id, escape(description))
	// vgsvg escapes the text that it draws, and the rest here is numbers and what escape has seen.
	return template.HTML(head + repaint.Replace(body)), nil
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // into memory
	return b.String()
}

// sans has all text drawn without serifs, like the page's.
var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

// label is a style for text.
func label(p paint, size float64, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color: p.rgb, Font: font.From(sans, vg.Points(size)), XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler,
	}
}

// newPlot is a plot in the page's style: no frame, a quiet grid, text that is small and can be read.
func newPlot() *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.Transparent
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle.Color = grid.rgb
		axis.LineStyle.Width = vg.Points(0.75)
		axis.Tick.LineStyle.Color = grid.rgb
		axis.Tick.Label = restyled(axis.Tick.Label)
		axis.Label.TextStyle = restyled(axis.Label.TextStyle)
	}
	return p
}

// restyled is a label of an axis where it was.
func restyled(old text.Style) text.Style {
	s := label(muted, tickSize, old.XAlign, old.YAlign)
	s.Rotation = old.Rotation
	return s
}

// stroke is a style for lines.
func stroke(p paint, width float64) draw.LineStyle {
	return draw.LineStyle{Color: p.rgb, Width: vg.Points(width)}
}
