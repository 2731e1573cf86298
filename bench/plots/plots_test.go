package plots

import (
	"bytes"
	"encoding/xml"
	"os"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/bench/measure"
)

// The pictures are those of the tables as they stand.
func TestPicturesAreUpToDate(t *testing.T) {
	pictures, err := Pictures("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pictures {
		if err := xml.Unmarshal(want, new(struct{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := os.ReadFile("../../docs/img/" + name); !bytes.Equal(got, want) {
			t.Errorf("docs/img/%s is not what the table says: go run ./cmd/bench-plots", name)
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

func TestRedis(t *testing.T) {
	const caption = "*GET, 8 goroutines: time (CPU)*\n\n"
	const head = "| contender | 1KiB | 4KiB | B/op, largest |\n|---|---|---|---|\n"
	table := caption + head + "| raw, µs a call | 2.0 (1.0) | 3 (2) | |\n| raw | 1 (1) | 1 (1) | 0 |\n" +
		"| redisbuf Get | 1.05, 0.9 to 1.1 (0.75) | 1.02 (0.8) | 0 |\n"
	for q, want := range map[*Quantity]float64{&Time: 1.05, &CPU: 0.75} {
		c, err := Redis(table, "GET, 8 goroutines", *q)
		if err != nil || len(c.Groups) != 2 || c.Groups[0].Title != "1KiB" || len(c.Groups[1].Bars) != 2 ||
			c.Groups[0].Bars[1] != (measure.Bar{Name: "redisbuf Get", Value: want, Side: measure.Ours}) {
			t.Errorf("%+v, %v", c, err)
		}
	}
	for _, bad := range []string{"", caption, caption + head, caption + head + "| raw | 1 | 1 | 0 |\n", caption + head + "| raw | 1 (1) |\n"} {
		if c, err := Redis(bad, "GET, 8 goroutines", CPU); err == nil {
			t.Errorf("%q: %+v", bad, c)
		}
	}
}

func TestFiles(t *testing.T) {
	const head = "x\n## Files\n\n"
	const caption = "*1 MiB, 8 connections, TLS, 5 rounds of 3 s*\n\n"
	const rows = "| contender | CPU s/GB |\n|---|---|\n| nginx, 2 workers | 0.31 (0.3 to 0.4) |\n| wrapped: chunk.FileServer | 0.1 |\n\n"
	c, err := Files(head+caption+rows+"- text\n\n"+caption+rows+"### Next\n\n"+caption+rows, "## Files")
	if err != nil || len(c.Groups) != 2 || c.Groups[1].Title != "1 MiB, 8 connections, TLS" ||
		!slices.Equal(c.Groups[0].Bars, []measure.Bar{
			{Name: "nginx, 2 workers", Value: 0.31, Side: measure.Rival},
			{Name: "wrapped: chunk.FileServer", Value: 0.1, Side: measure.Ours}}) {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"", head, head + caption, head + caption + "| contender | CPU |\n|---|---|\n| a | - |\n",
		head + caption + "| contender | CPU |\n|---|---|\n| a |\n"} {
		if c, err := Files(bad, "## Files"); err == nil {
			t.Errorf("%q: %+v", bad, c)
		}
	}
}
