// Command bench-reader compares ways to read packets (W1, W2, W3) and to share
// packets that are kept (W4), in interleaved rounds.
//
//	go run ./cmd/bench-reader
//	go run ./cmd/bench-reader -only W4 -rounds 11
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/kept"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/reader"
)

func main() {
	rounds := flag.Int("rounds", 7, "rounds")
	turn := flag.Duration("turn", 300*time.Millisecond, "length of each turn")
	only := flag.String("only", "W1,W2,W3,W4", "workloads")
	flag.Parse()
	fmt.Printf("%s\n", measure.Header())
	for _, w := range reader.Workloads {
		if strings.Contains(*only, w.Name) {
			fmt.Printf("\n%s: %s, %d rounds of %v\n\n", w.Name, w.What, *rounds, *turn)
			writeReader(os.Stdout, reader.Measure(w, reader.Contenders, *rounds, *turn))
		}
	}
	if strings.Contains(*only, "W4") {
		fmt.Printf("\nW4: packets kept by %d goroutines, %d rounds of %v\n\n", kept.Subscribers, *rounds, *turn)
		writeKept(os.Stdout, kept.Measure(*rounds, *turn))
	}
}

// writeReader compares with the naive way and with Peek: the second and the
// third of the contenders.
func writeReader(w io.Writer, results []reader.Result) {
	naive, peek := results[1].Nanos, results[2].Nanos
	t := measure.NewTable("contender", "ns a packet", "x naive", "x Peek+Discard", "CPU ns", "CPU x naive", "B/op", "allocs/op", "GCs/M")
	for _, r := range results {
		t.Row(r.Contender.Name, r.Nanos, naive.Over(r.Nanos), peek.Over(r.Nanos), r.CPU.Median(),
			results[1].CPU.Over(r.CPU), r.Bytes.Whole(), r.Allocs.Median(), r.GCs.Median())
	}
	t.WriteTo(w)
}

// writeKept compares with the slice that is allocated once: the first of the
// contenders. Each round has its hand-off subtracted.
func writeKept(w io.Writer, results []kept.Result) {
	net := func(r kept.Result) measure.Series { return r.Nanos.Minus(r.HandOff) }
	base := net(results[0])
	t := measure.NewTable("contender", "ns a packet", "hand-off alone", "without it", "x allocate once", "CPU ns",
		"B/op", "allocs/op", "GCs/M")
	for _, r := range results {
		t.Row(r.Contender.Name, r.Nanos, r.HandOff, net(r), base.Over(net(r)), r.CPU.Median(),
			r.Bytes.Whole(), r.Allocs.Median(), r.GCs.Median())
	}
	t.WriteTo(w)
}
