// Command bench-small compares stackbuf.Buffer with bytes.Buffer and
// strings.Builder, in interleaved rounds.
//
//	go run ./cmd/bench-small
//	go run ./cmd/bench-small -only ReadFrom -rounds 11
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/small"
)

func main() {
	rounds := flag.Int("rounds", 7, "rounds")
	turn := flag.Duration("turn", 30*time.Millisecond, "length of each turn")
	only := flag.String("only", "", "cases whose name has this in it")
	flag.Parse()
	fmt.Printf("%s\n\n%d rounds of %v\n\n", measure.Header(), *rounds, *turn)
	t := measure.NewTable("case", "bytes.Buffer ns", "B/op", "strings.Builder ns", "B/op", "stackbuf.Buffer ns", "B/op", "allocs",
		"x bytes.Buffer", "x strings.Builder", "CPU x bytes.Buffer", "GCs/M, bytes.Buffer", "ours")
	for _, c := range small.Cases() {
		if !strings.Contains(c.Name, *only) {
			continue
		}
		bytes, ours, builder := small.Measure(c, *rounds, *turn)
		t.Row(c.Name, bytes.Nanos.Median(), bytes.Bytes.Whole(), builder.Nanos.Median(), builder.Bytes.Whole(),
			ours.Nanos.Median(), ours.Bytes.Whole(), ours.Allocs.Whole(), bytes.Nanos.Over(ours.Nanos),
			builder.Nanos.Over(ours.Nanos).Median(), bytes.CPU.Over(ours.CPU).Median(), bytes.GCs.Median(), ours.GCs.Median())
	}
	t.WriteTo(os.Stdout)
}
