// Command bench-pool compares ways to have a buffer for a moment, in interleaved rounds: millrace.Pool, sync.Pool,
// bytebufferpool, gRPC's and ByteDance's pools, a channel, a stack, and make.
//
//	go run ./cmd/bench-pool
//	go run ./cmd/bench-pool -only handoff -rounds 31
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/bench/pool"
)

// Turns are short, and there are many, so that most are not interrupted.
var (
	rounds = flag.Int("rounds", 11, "rounds")
	turn   = flag.Duration("turn", 20*time.Millisecond, "length of each turn")
	only   = flag.String("only", "one,each,handoff", "who gets buffers and gives them back")
)

func main() {
	flag.Parse()
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	modes, err := parse()
	if err != nil {
		return err
	}
	fmt.Fprintln(w, measure.Header())
	for _, m := range modes {
		var all [][]pool.Result
		for _, size := range pool.Sizes {
			all = append(all, pool.Measure(m, pool.Contenders, size, *rounds, *turn))
		}
		fmt.Fprintf(w, "\n*A buffer is got, a byte of each cache line is written, and it is given back: %s; %d rounds of %v*\n\n",
			m.What, *rounds, *turn)
		if err := pool.WriteTable(w, pool.Sizes, all); err != nil {
			return err
		}
	}
	return nil
}

// parse reads the flags.
func parse() (modes []pool.Mode, err error) {
	if *rounds < 1 || *turn <= 0 {
		return nil, fmt.Errorf("-rounds and -turn are above 0")
	}
	for _, key := range strings.Split(*only, ",") {
		i := slices.IndexFunc(pool.Modes, func(m pool.Mode) bool { return m.Key == strings.TrimSpace(key) })
		if i < 0 {
			return nil, fmt.Errorf("-only %q: there are one, each and handoff", key)
		}
		modes = append(modes, pool.Modes[i])
	}
	return modes, nil
}
