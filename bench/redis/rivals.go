package redis

import (
	"fmt"
	"io"

	"github.com/millrace-io/millrace/bench/measure"
)

// RivalTasks are what WriteRivals has tables of.
func RivalTasks() (tasks []Task) {
	for _, t := range Tasks {
		if len(t.ours) > 0 {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// WriteRivals writes what a call takes ours and each rival, with a row for each number of goroutines and each size. It says
// the same as WriteTables, in microseconds, and how many times as long as ours each rival takes in the same round.
func (p *Plan) WriteRivals(w io.Writer, results []Result) {
	for _, t := range RivalTasks() {
		fmt.Fprintf(w, "\n*%s: µs a call of ours and of each rival, and x: how many times as long as ours the rival takes in "+
			"the same round; %d rounds of %v*\n\n", t.What, p.Rounds, p.Turn)
		head := []string{"ours", "goroutines", "size", "µs", "B/op (allocs)"}
		for _, rival := range t.rivals {
			head = append(head, rival+" µs", "x", "B/op (allocs)")
		}
		tab := measure.NewTable(head...)
		for _, n := range p.Goroutines {
			for _, size := range p.Sizes {
				for _, us := range t.ours {
					if size >= us.from {
						tab.Row(us.beside(t, results, size, n)...)
					}
				}
			}
		}
		tab.WriteTo(w)
	}
}

// An own is a contender of ours that has rivals.
type own struct {
	name string // in the table
	key  string // the contender's
	from int    // size of the least value for which it is another way than the one before
}

// beside is its row of the rivals' table.
func (o own) beside(t Task, results []Result, size, goroutines int) []any {
	us := find(results, t, o.key, size, goroutines)
	if us == nil {
		return []any{o.name, goroutines, SizeName(size)}
	}
	row := []any{o.name, goroutines, SizeName(size), us.Nanos.Times(1e-3), us.memory()}
	for _, rival := range t.rivals {
		r := find(results, t, rival, size, goroutines)
		if r == nil {
			r = new(Result)
		}
		row = append(row, r.Nanos.Times(1e-3), r.Nanos.Over(us.Nanos), r.memory())
	}
	return row
}

// memory is what a call allocates.
func (r *Result) memory() string { return fmt.Sprintf("%s (%s)", r.Bytes.Whole(), r.Allocs.Whole()) }
