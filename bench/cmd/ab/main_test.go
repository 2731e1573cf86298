package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/measure"
)

// Figures that both commits have in every round are compared pair by pair.
func TestComparison(t *testing.T) {
	var c comparison
	for round, values := range [][2]float64{{100, 110}, {200, 200}, {50, 60}} {
		for side, v := range values {
			table := measure.NewTable("relay", "title", "case", "server", "CPU", "new")
			table.Row("1x200", "millrace", v, 1.0)
			if side == 0 {
				table.Columns[3] = "old"
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
	if len(table.Rows) != 1 {
		t.Fatalf("%v", table.Rows)
	}
	if row := table.Rows[0]; row[1].Text != "1x200, millrace" || row[2].Text != "CPU" || *row[5].Value != 1.1 || *row[5].Low != 1 || *row[5].High != 1.2 {
		t.Errorf("%v", row)
	}
	if err := c.read(t.TempDir(), 0, 3); err == nil {
		t.Error("a program without tables")
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{{}, {"-base", "."}, {"-base", ".", "-rounds", "0", "relay"}, {"relay"}} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if err := run(t.Context(), []string{"-base", os.DevNull, "relay"}); err == nil {
		t.Error("a base that is no directory")
	}
}
