package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/measure"
)

// Figures are compared in pairs, including text, by the names of columns and rows. A figure that
// one tree lacks is shown.
func TestComparison(t *testing.T) {
	var c comparison
	for round, values := range [][2]float64{{100, 110}, {200, 200}, {50, 60}} {
		for side, v := range values {
			table := measure.NewTable("relay", "title", "case", "server", "CPU", "CPU", "B/op",
				"new")
			table.Row("1x200", "millrace", v, 2.0, measure.Series{float64(1024 * side)}.Whole(),
				1.0)
			table.Row("1x200", "millrace", 5.0)
			if side == 0 {
				table.Columns[5] = "old"
			}
			dir := filepath.Join(t.TempDir(), "out")
			if err := (measure.Report{Dir: dir}).Write(table); err != nil {
				t.Fatal(err)
			}
			if err := c.read(dir, side, round); err != nil {
				t.Fatal(err)
			}
		}
	}
	table := c.table("title")
	var got []string
	for _, row := range table.Rows {
		got = append(got, fmt.Sprint(row[1].Text, ", ", row[2].Text, ": ", row[5].Text))
	}
	want := []string{
		"1x200, millrace, CPU: 1.10 (1 to 1.20)", "1x200, millrace, CPU: 1",
		"1x200, millrace, B/op: -", "1x200, millrace, old: -",
		"1x200, millrace, CPU: 1", "1x200, millrace, new: -",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := c.read(t.TempDir(), 0, 3); err == nil {
		t.Error("a program without tables")
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"-base", "."}, {"-base", ".", "-rounds", "0", "relay"},
		{"relay"}} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%q: %v, want an error that says what is wanted", args, err)
		}
	}
	if err := run(t.Context(), []string{"-base", os.DevNull, "relay"}); err == nil {
		t.Error("a base that is no directory")
	}
}
