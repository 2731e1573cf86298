package plots

import (
	"bytes"
	"encoding/xml"
	"os"
	"testing"
)

// The pictures are those of the tables as they stand.
func TestPicturesAreUpToDate(t *testing.T) {
	page, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Figures(string(page))
	if err != nil {
		t.Fatal(err)
	}
	bounds, err := Bounds(string(page), BoundsHeading)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"ratios": Ratios(rows), "latency-bound": Curve(bounds, CurveTitle)} {
		if err := xml.Unmarshal(want, new(struct{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := os.ReadFile("../../docs/img/" + name + ".svg"); !bytes.Equal(got, want) {
			t.Errorf("docs/img/%s.svg is not what the table says: go run ./cmd/bench-plots", name)
		}
	}
}

func TestFigures(t *testing.T) {
	const head = "text\n\n| work | ours | the rival | ratio | by |\n|---|---|---|---|---|\n"
	rows, err := Figures(head + "| a `b` | 1 ns | c: 2 ns | **2.0x** | |\n| d | 2 | 1 | 0.5x: we lose | |\n\n| not this |\n")
	if err != nil || len(rows) != 2 || rows[0] != (Row{"a b", "1 ns", "c: 2 ns", 2}) || rows[1].Ratio != 0.5 {
		t.Errorf("%+v, %v", rows, err)
	}
	for _, bad := range []string{"", head, head + "| a | b | c | none | |\n", head + "| a | b |\n"} {
		if rows, err := Figures(bad); err == nil {
			t.Errorf("%q: %+v", bad, rows)
		}
	}
}
