// Command ab measures this commit beside another one: it runs a program of bench in both trees by turns, a round at a
// time, and prints the ratio of each figure. See "make ab".
//
//	go run ./cmd/ab -base ../../base/bench -rounds 9 -- relay -contenders millrace@50ms -case 1x200
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
	base := flags.String("base", "", "the bench directory of the other commit")
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
			side := (round + turn) % 2 // each is the first one in every other round
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
	t := c.table(fmt.Sprintf("bench %s: this commit beside another one, %d rounds", flags.Arg(0), *rounds))
	t.Machine, t.Command = measure.ThisMachine(), "bench "+strings.Join(flags.Args(), " ")
	_, err = fmt.Println(t.Markdown())
	return err
}

// command returns a command whose tables are not printed.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return cmd
}

// A figure is one number of a table, by the names of its row and its column.
type figure struct{ table, row, column string }

// A comparison has the figures of both sides: 0 is the other commit, 1 is this one.
type comparison struct {
	order  []figure
	values map[figure]*[2]measure.Series
}

// read adds the tables in a directory, which a side has written in a round.
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
	for _, row := range t.Rows {
		var label []string
		for _, cell := range row {
			if cell.Value == nil && cell.Text != "" && cell.Text != "-" {
				label = append(label, cell.Text)
			}
		}
		for i, cell := range row {
			if cell.Value == nil {
				continue
			}
			f := figure{t.Name, strings.Join(label, ", "), t.Columns[i]}
			v := c.values[f]
			if v == nil {
				v = new([2]measure.Series)
				c.values[f] = v
				c.order = append(c.order, f)
			}
			if len(v[side]) == round { // once a round, and in all rounds before
				v[side] = append(v[side], *cell.Value)
			}
		}
	}
}

// table returns the figures that both sides have in all rounds, with the ratio of each round's pair.
func (c *comparison) table(title string) *measure.Table {
	t := measure.NewTable("ab", title, "table", "row", "figure", "other", "this", "this : other")
	for _, f := range c.order {
		v := c.values[f]
		if len(v[0]) != len(v[1]) || len(v[0]) == 0 {
			continue
		}
		var ratio measure.Series
		for i := range v[0] {
			if v[0][i] != 0 {
				ratio = append(ratio, v[1][i]/v[0][i])
			}
		}
		if len(ratio) == len(v[0]) {
			t.Row(f.table, f.row, f.column, v[0].Median(), v[1].Median(), ratio)
		}
	}
	t.Note = "Medians, and of the ratio of each round's pair the median and the spread."
	return t
}
