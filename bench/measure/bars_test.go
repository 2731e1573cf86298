package measure

import (
	"bytes"
	"encoding/xml"
	"math"
	"strings"
	"testing"
)

func TestBars(t *testing.T) {
	svg := Bars{Title: "a < b", Groups: []BarGroup{
		{"one", []Bar{{"ours", 1, Ours}, {"theirs", 4, Rival}, {"absent", math.NaN(), Others}}},
		{"none", nil},
	}}.SVG()
	if err := xml.Unmarshal(svg, new(struct{})); err != nil {
		t.Fatalf("%v in\n%s", err, svg)
	}
	if n := bytes.Count(svg, []byte("<rect")); n != 3 { // the background is one
		t.Errorf("%d bars, want 2:\n%s", n-1, svg)
	}
	for _, want := range []string{"a &lt; b", "one, theirs: 4.", `width="155"`, `width="620"`} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
}
