// Command bench-idle measures what an idle connection costs: ten thousand of
// them, each with a reader that waits for one byte.
//
//	go run ./cmd/bench-idle
package main

import (
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/millrace-io/millrace/bench/idle"
	"github.com/millrace-io/millrace/bench/measure"
)

func main() {
	idle.Main()
	want := flag.Int("conns", 10_000, "connections")
	rounds := flag.Int("rounds", 3, "rounds")
	flag.Parse()
	n := idle.Fit(*want)
	fmt.Printf("%s\n\n", measure.Header())
	if n < *want {
		fmt.Printf("The limit of descriptors allows %d connections, not %d.\n\n", n, *want)
	}
	if _, err := idle.Measure(idle.Waiters[0], n); err != nil { // what the first one finds unprepared
		log.Fatal(err)
	}
	heap := make([]measure.Series, len(idle.Waiters))
	stack := make([]measure.Series, len(idle.Waiters))
	for range *rounds {
		for i, w := range idle.Waiters {
			u, err := idle.Measure(w, n)
			if err != nil {
				log.Fatal(err)
			}
			heap[i] = append(heap[i], float64(u.Heap)/float64(n))
			stack[i] = append(stack[i], float64(u.Stack)/float64(n))
		}
	}
	t := measure.NewTable("waiting in", "heap bytes a connection", "of these, the reader's", "stack bytes")
	for i, w := range idle.Waiters {
		t.Row(w.Name, heap[i], heap[i].Minus(heap[0]), stack[i].Median())
	}
	t.WriteTo(os.Stdout)
}
