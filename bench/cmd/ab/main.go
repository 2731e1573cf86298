// Command ab compares this source tree with another one. It runs the same benchmark program
// alternately in both trees, one round at a time, and prints the ratio of each pair of figures. See
// "make ab".
//
//	GOWORK=off go run ./cmd/ab -base ../../base/bench -rounds 9 -- relay -contenders millrace@50ms -case 1x200
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

func main() {
	ctx, stop := measure.UntilStopped()
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "ab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("ab", flag.ContinueOnError)
	base := flags.String("base", "", "the bench directory of the other tree")
	rounds := flags.Int("rounds", 9, "rounds, each of one turn in both trees")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *base == "" || *rounds < 1 || flags.NArg() == 0 {
		return errors.New("want -base DIR, -rounds above 0, and a program of bench with its flags")
	}
	dir, err := os.MkdirTemp("", "millrace-ab")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	trees := []string{*base, "."}
	var bins []string
	for i, tree := range trees {
		bin := filepath.Join(dir, "bench"+strconv.Itoa(i))
		if err := command(ctx, tree, "go", "build", "-o", bin, "./cmd/bench").Run(); err != nil {
			return fmt.Errorf("go build in %s: %w", tree, err)
		}
		bins = append(bins, bin)
	}
	var c comparison
	for round := range *rounds {
		for turn := range 2 {
			side := (round + turn) % 2 // each side is first in every other round
			out := filepath.Join(dir, fmt.Sprint(round, "-", side))
			line := append(slices.Clone(flags.Args()), "-rounds", "1", "-out", out)
			if err := command(ctx, trees[side], bins[side], line...).Run(); err != nil {
				return fmt.Errorf("%s in %s: %w", strings.Join(line, " "), trees[side], err)
			}
			if err := c.read(out, side, round); err != nil {
				return err
			}
		}
		fmt.Fprintf(os.Stderr, "ab: round %d of %d\n", round+1, *rounds)
	}
	t := c.table(fmt.Sprintf("bench %s: this tree beside another one, %d rounds", flags.Arg(0),
		*rounds))
	if len(t.Rows) == 0 {
		return errors.New("the two have no figure in common")
	}
	t.Machine, t.Command = measure.ThisMachine(), "bench "+strings.Join(flags.Args(), " ")
	_, err = fmt.Println(t.Markdown())
	return err
}

// command returns a command that runs in dir and discards its standard output. When ctx ends, the
// command gets SIGTERM and time to clean up.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

// A figure identifies a number in a table of results. The fields rowNumber and columnNo distinguish
// rows and columns that have the same name.
type figure struct {
	table, row string
	rowNumber  int
	column     string
	columnNo   int
}

// A comparison collects the numbers from both source trees. Side 0 is the tree of the flag -base,
// and side 1 is this tree.
type comparison struct {
	order  []figure
	values map[figure]*[2]measure.Series // indexed by side
}

// read adds the tables in dir to c. The tables are the results of one side in one round.
func (c *comparison) read(dir string, side, round int) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no tables in %s", dir)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var t measure.Table
		if err := json.Unmarshal(text, &t); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c.add(&t, side, round)
	}
	return nil
}

func (c *comparison) add(t *measure.Table, side, round int) {
	if c.values == nil {
		c.values = make(map[figure]*[2]measure.Series)
	}
	rows := make(map[string]int)
	for _, row := range t.Rows {
		label := label(row)
		f := figure{table: t.Name, row: strings.Join(label, ", ")}
		f.rowNumber = rows[f.row]
		rows[f.row]++
		columns := make(map[string]int)
		for i := len(label); i < len(row); i++ {
			f.column, f.columnNo = t.Columns[i], columns[t.Columns[i]]
			columns[f.column]++
			value, ok := number(row[i])
			if !ok {
				continue
			}
			v := c.values[f]
			if v == nil {
				v = new([2]measure.Series)
				c.values[f] = v
				c.order = append(c.order, f)
			}
			if len(v[side]) == round { // the figure was present in all earlier rounds
				v[side] = append(v[side], value)
			}
		}
	}
}

// label returns the text cells at the beginning of a row.
func label(row []measure.Cell) (texts []string) {
	for i, cell := range row {
		if _, ok := number(cell); ok && i > 0 || cell.Value != nil {
			break
		}
		texts = append(texts, cell.Text)
	}
	return texts
}

// number returns the number in a cell. Some cells have the number as text only.
func number(c measure.Cell) (float64, bool) {
	if c.Value != nil {
		return *c.Value, true
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(c.Text, ",", ""), 64)
	return v, err == nil
}

// table returns the median of each figure for the two source trees, and the ratio of the value in
// this tree to the value in the other tree. A figure has no ratio if a round has no value for it,
// or if only the other tree's value is 0.
func (c *comparison) table(title string) *measure.Table {
	t := measure.NewTable("ab", title, "table", "row", "figure", "other", "this", "this : other")
	for _, f := range c.order {
		v := c.values[f]
		var ratio measure.Series
		for i := range min(len(v[0]), len(v[1])) {
			switch {
			case v[0][i] != 0:
				ratio = append(ratio, v[1][i]/v[0][i])
			case v[1][i] == 0: // 0 on both sides, such as no allocations
				ratio = append(ratio, 1)
			}
		}
		if len(v[0]) != len(v[1]) || len(ratio) != len(v[0]) {
			ratio = nil
		}
		t.Row(f.table, f.row, f.column, v[0].Median(), v[1].Median(), ratio)
	}
	t.Note = "Medians, and of the ratio of each round's pair the median and the spread. A figure without a ratio is not in " +
		"both trees in all rounds, or was 0."
	return t
}
