package pool

import (
	"fmt"
	"io"

	"github.com/millrace-io/millrace/bench/measure"
)

// WriteTable writes what a mode came to: the results for each of the sizes. Ratios are to sync.Pool in the same round.
func WriteTable(w io.Writer, sizes []int, results [][]Result) error {
	head := []string{"contender"}
	for _, size := range sizes {
		name := fmt.Sprintf("%d KiB", size>>10)
		head = append(head, name+" ns", "x sync.Pool", "B/op")
	}
	t := measure.NewTable(append(head, "CPU ns, largest", "allocs/op", "GCs/M")...)
	for i, c := range results[0] {
		row := []any{c.Contender.Name}
		var last Result
		for _, of := range results {
			last = of[i]
			row = append(row, last.Nanos.Median(), base(of).Nanos.Over(last.Nanos), last.Bytes.Whole())
		}
		t.Row(append(row, last.CPU.Median(), last.Allocs.Median(), last.GCs.Median())...)
	}
	_, err := t.WriteTo(w)
	return err
}

// base is the result of the contender that the others are compared with.
func base(results []Result) Result {
	for _, r := range results {
		if r.Contender.Name == Base {
			return r
		}
	}
	return Result{}
}
