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
	line3  = paint{drawing.Color{R: 1, G: 2, B: 11, A: 255}, "--line3"}
	shade  = paint{drawing.Color{R: 1, G: 2, B: 12, A: 255}, "--shade"}
	paints = []paint{ink, muted, grid, ahead, even, lost, line1, line2, line3, shade}
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

// A picture is a drawing with a name and a description for those who do not see it. The zero picture is none.
type picture struct {
	id, title, description string
	width, height          int
	body                   string // escaped
}

func newPicture(id, title, description string, c *canvas) (picture, error) {
	body, ok, err := c.svg()
	if err != nil {
		return picture{}, err
	}
	if !ok {
		return picture{}, fmt.Errorf("bench: no drawing of %q", title)
	}
	return picture{id, escape(title), escape(description), units(c.width), units(c.height), repaint().Replace(body)}, nil
}

// pictureMargin is free around a picture in a file of its own.
const pictureMargin = 14 * unit // points

// element is the picture as a part of a page.
func (p picture) element() template.HTML {
	if p.id == "" {
		return ""
	}
	// Names and what a canvas writes are escaped, and the rest is numbers.
	return template.HTML(p.head(0) + p.body)
}

// file is the picture as a file of its own, which is as readable on a dark page as on a light one.
func (p picture) file() []byte {
	const m = pictureMargin
	ground := fmt.Sprintf(`<style>%s</style>`+"\n"+`<rect x="%d" y="%d" width="%d" height="%d" style="fill:var(--card)"/>`+"\n",
		palette, -m, -m, p.width+2*m, p.height+2*m)
	return []byte(p.head(m) + ground + p.body)
}

// head begins the picture. The fonts are about as wide as the one that text is measured in.
func (p picture) head(margin int) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="%d %d %d %d" role="img" `+
		`font-family="Liberation Sans,Arial,Helvetica,sans-serif" aria-labelledby="%s-t %s-d">`+"\n"+
		`<title id="%s-t">%s</title>`+"\n"+`<desc id="%s-d">%s</desc>`+"\n",
		-margin, -margin, p.width+2*margin, p.height+2*margin, p.id, p.id, p.id, p.title, p.id, p.description)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // into memory
	return b.String()
}
