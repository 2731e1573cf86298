package bench

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestAxis(t *testing.T) {
	plain, upright := newAxis(0, 10, 20, 100, valueTicks), newAxis(0, 10, 20, 100, valueTicks).upward()
	ratio := newAxis(0.1, 10, 20, 100, ratioTicks{}).logarithmic()
	for _, tt := range []struct {
		name        string
		axis        axis
		value, want float64
	}{
		{"least", plain, 0, 20}, {"between", plain, 2.5, 45}, {"most", plain, 10, 120},
		{"lowest", upright, 0, 120}, {"highest", upright, 10, 20},
		{"a tenth", ratio, 0.1, 20}, {"one", ratio, 1, 70}, {"ten", ratio, 10, 120},
	} {
		if got := tt.axis.at(tt.value); math.Abs(got-tt.want) > 1.0/unit {
			t.Errorf("%s: %g is at %g, want %g", tt.name, tt.value, got, tt.want)
		}
	}
}

func TestSinceZero(t *testing.T) {
	for _, tt := range []struct{ line, want []point }{
		{nil, nil},
		{[]point{{-2, 1}, {-1, 1}}, nil},
		{[]point{{1, 5}, {2, 6}}, []point{{1, 5}, {2, 6}}},
		{[]point{{-1, 5}, {0, 6}, {1, 7}}, []point{{0, 6}, {1, 7}}},
		{[]point{{-2, 9}, {-1, 4}, {1, 8}}, []point{{0, 6}, {1, 8}}},
	} {
		if got := sinceZero(tt.line); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.line, got, tt.want)
		}
	}
}

// Text stays text, in the paint and from the place that it was written with.
func TestWrite(t *testing.T) {
	c, err := newCanvas(100, 50)
	if err != nil {
		t.Fatal(err)
	}
	c.write(muted, tickSize, atEnd, point{10, 20.5}, `<a & "b">`)
	p, err := newPicture("id", "title", "description", c)
	if err != nil {
		t.Fatal(err)
	}
	got := string(p.element())
	for _, want := range []string{
		`x="100" y="205"`, "fill:var(--muted);text-anchor:end", ">&lt;a &amp; &#34;b&#34;&gt;</text>", `viewBox="0 0 1000 500"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if short, long := c.measure(tickSize, "i"), c.measure(tickSize, "iiiiii"); short <= 0 || long <= short {
		t.Errorf("widths are %g and %g", short, long)
	}
}
