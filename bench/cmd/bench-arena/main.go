// Command bench-arena compares ways to assemble frames, hand them over and get
// their memory back, in interleaved rounds: arena.Pool, what Go has without it,
// and the Rust crate buffer_sv2, when there is a cargo to build it with.
//
//	go run ./cmd/bench-arena
//	go run ./cmd/bench-arena -only slots -rounds 11
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/arena"
	"github.com/millrace-io/millrace/bench/measure"
)

// longer is how many times as long as the others a turn is in which frames are
// held for a millisecond.
const longer = 8

// Turns are short, and there are many, so that most are not interrupted.
var (
	rounds = flag.Int("rounds", 21, "rounds")
	turn   = flag.Duration("turn", 10*time.Millisecond, "length of each turn; eight times that for the hand-off")
	only   = flag.String("only", "ten,whole,slots,handoff", "tables")
	dir    = flag.String("crate", "buffersv2", "where the Rust program's source is")
)

func main() {
	flag.Parse()
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench-arena:", err)
		os.Exit(1)
	}
}

func run(w io.Writer) (err error) {
	fmt.Fprintln(w, measure.Header())
	crate, err := arena.StartCrate(context.Background(), *dir)
	switch {
	case errors.Is(err, arena.ErrNoCrate):
		fmt.Fprintf(w, "\nWithout the Rust crate: %v\n", err)
	case err != nil:
		return err
	default:
		fmt.Fprintf(w, "\nRust: buffer_sv2 3.0.1, cargo build --release, %s\n", crate.Version)
		defer func() { err = errors.Join(err, crate.Close()) }()
	}
	if strings.Contains(*only, "ten") {
		if err := compare(w, "Messages written ten bytes at a time", arena.Ten(crate), *turn, false); err != nil {
			return err
		}
	}
	if strings.Contains(*only, "whole") {
		if err := compare(w, "Messages written at once", arena.Whole(crate), *turn, false); err != nil {
			return err
		}
	}
	if strings.Contains(*only, "slots") {
		if err := slots(w, arena.Structure(crate)); err != nil {
			return err
		}
	}
	if strings.Contains(*only, "handoff") {
		if err := compare(w, "Handed over and held for 1 ms", arena.Apart(crate), longer**turn, true); err != nil {
			return err
		}
		return compare(w, "The same two by two", arena.Pairs(crate), longer**turn, true)
	}
	return nil
}

// compare measures rows and compares each with those that are bases: by time,
// or by that of the processors where time is mostly spent waiting.
func compare(w io.Writer, title string, rows []arena.Row, d time.Duration, byCPU bool) error {
	head, by := []string{"contender", "ns a message", "CPU ns"}, "x "
	if byCPU {
		by = "CPU x "
	}
	turners := make([]arena.Turner, len(rows))
	for i, r := range rows {
		turners[i] = r.Turner
		if r.Base != "" {
			head = append(head, by+r.Base)
		}
	}
	results, err := arena.Measure(turners, *rounds, d)
	if err != nil {
		return err
	}
	cost := func(i int) measure.Series {
		if byCPU {
			return results[i].CPU
		}
		return results[i].Nanos
	}
	t := measure.NewTable(append(head, "B/op", "allocs/op", "GCs/M", "on the heap")...)
	for i, r := range rows {
		one := results[i]
		cells := []any{r.Name, one.Nanos, one.CPU.Median()}
		for k, base := range rows {
			if base.Base != "" {
				cells = append(cells, cost(k).Over(cost(i)))
			}
		}
		t.Row(append(cells, one.Bytes.Whole(), one.Allocs.Median(), one.GCs.Median(), percent(one.OnHeap))...)
	}
	fmt.Fprintf(w, "\n%s, %d rounds of %v\n\n", title, *rounds, d)
	_, err = t.WriteTo(w)
	return err
}

// slots measures the structure alone, all rows in the same rounds, and compares
// each row with the crate and with the first one.
func slots(w io.Writer, rows []arena.SlotsRow) error {
	const each = 4
	var turners []arena.Turner
	var of [][each]int // the results of each row, or -1
	for _, r := range rows {
		var at [each]int
		for k, by := range [each]arena.Turner{r.Ours, r.Crate, r.Made, r.Pooled} {
			at[k] = -1
			if by != nil {
				at[k] = len(turners)
				turners = append(turners, by)
			}
		}
		of = append(of, at)
	}
	results, err := arena.Measure(turners, *rounds, *turn)
	if err != nil {
		return err
	}
	result := func(i int) arena.Result {
		if i < 0 {
			return arena.Result{}
		}
		return results[i]
	}
	t := measure.NewTable("live, slots, released", "arena.Pool ns", "BufferPool ns", "x BufferPool", "x one live",
		"B/op", "allocs/op", "on the heap", "BufferPool's", "make ns", "sync.Pool ns")
	for i, r := range rows {
		ours, crate := result(of[i][0]), result(of[i][1])
		t.Row(fmt.Sprintf("%d, %d, %s", r.Live, r.Slots, r.Order), ours.Nanos, crate.Nanos, crate.Nanos.Over(ours.Nanos),
			result(of[0][0]).Nanos.Over(ours.Nanos).Median(), ours.Bytes.Whole(), ours.Allocs.Median(),
			percent(ours.OnHeap), percent(crate.OnHeap), result(of[i][2]).Nanos.Median(), result(of[i][3]).Nanos.Median())
	}
	fmt.Fprintf(w, "\nThe structure alone, frames of 32 bytes, %d rounds of %v\n\n", *rounds, *turn)
	_, err = t.WriteTo(w)
	return err
}

func percent(s measure.Series) string {
	if len(s) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g%%", 100*s.Median())
}
