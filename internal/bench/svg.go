package bench

import (
	"encoding/xml"
	"fmt"
	"html/template"
	"strings"
	"sync"

	"github.com/wcharczuk/go-chart/v2/drawing"
)

// A paint is a colour by what it means. In a drawing it is a colour that nothing else has, and in the picture a property of
// the page's style, so that a picture is as readable on a dark page as on a light one.
type paint struct {
	rgb  drawing.Color
	name string // of the property
}

var (
	ink    = paint{drawing.Color{R: 1, G: 2, B: 3, A: 255}, "--ink"}
	muted  = paint{drawing.Color{R: 1, G: 2, B: 4, A: 255}, "--muted"}
	grid   = paint{drawing.Color{R: 1, G: 2, B: 5, A: 255}, "--grid"}
	ahead  = paint{drawing.Color{R: 1, G: 2, B: 6, A: 255}, "--ahead"}
	even   = paint{drawing.Color{R: 1, G: 2, B: 7, A: 255}, "--even"}
	lost   = paint{drawing.Color{R: 1, G: 2, B: 8, A: 255}, "--lost"}
	line1  = paint{drawing.Color{R: 1, G: 2, B: 9, A: 255}, "--line1"}
	line2  = paint{drawing.Color{R: 1, G: 2, B: 10, A: 255}, "--line2"}
	shade  = paint{drawing.Color{R: 1, G: 2, B: 11, A: 255}, "--shade"}
	paints = []paint{ink, muted, grid, ahead, even, lost, line1, line2, shade}
)

// repaint replaces the colours by properties.
var repaint = sync.OnceValue(func() *strings.Replacer {
	var pairs []string
	for _, p := range paints {
		property := "var(" + p.name + ")"
		pairs = append(pairs,
			p.anchored(atStart).String(), property,
			p.anchored(atMiddle).String(), property+";text-anchor:middle",
			p.anchored(atEnd).String(), property+";text-anchor:end")
	}
	return strings.NewReplacer(pairs...)
})

// Sizes of what is drawn.
const (
	pictureWidth = 720 // points; the page scales it
	pictureRight = 8   // of them free at the right, for half of an axis's last value
	labelSize    = 10
	tickSize     = 9
	tickSpace    = 6 // between the values of an upright axis and what is drawn
)

// picture is a drawing with a name and a description for those who do not see it, to be put into a page.
func picture(id, title, description string, c *canvas) (template.HTML, error) {
	body, ok, err := c.svg()
	if err != nil {
		return "", err
	}
	if !ok {
		return "", fmt.Errorf("bench: no drawing of %q", title)
	}
	// The fonts are about as wide as the one that text is measured in.
	head := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 %d %d" role="img" `+
		`font-family="Liberation Sans,Arial,Helvetica,sans-serif" aria-labelledby="%s-t %s-d">`+"\n"+
		`<title id="%s-t">%s</title>`+"\n"+`<desc id="%s-d">%s</desc>`+"\n",
		units(c.width), units(c.height), id, id, id, escape(title), id, escape(description))
	// What a canvas writes is escaped, and the rest here is numbers and what escape has seen.
	return template.HTML(head + repaint().Replace(body)), nil
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // into memory
	return b.String()
}
