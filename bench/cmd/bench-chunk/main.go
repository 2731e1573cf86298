// Command bench-chunk compares ways to read a source to its end and to work on all that is in it, in interleaved rounds: a
// plain loop, bufio, klauspost's readahead and chunk.Reader.
//
//	go run ./cmd/bench-chunk
//	go run ./cmd/bench-chunk -only file,file-lines -rounds 31
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

	"github.com/millrace-io/millrace/bench/chunk"
	"github.com/millrace-io/millrace/bench/measure"
)

var (
	rounds = flag.Int("rounds", 9, "rounds")
	turn   = flag.Duration("turn", 60*time.Millisecond, "length of each turn; at least one run")
	only   = flag.String("only", "file,file-lines,waits,waits-lines,waits-deflate", "cases")
)

func main() {
	flag.Parse()
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	cases, err := parse()
	if err != nil {
		return err
	}
	site, err := chunk.NewSite(chunk.FileSize)
	if err != nil {
		return err
	}
	defer site.Close()
	fmt.Fprintln(w, measure.Header())
	for _, c := range cases {
		results, err := site.Measure(c, *rounds, *turn)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\n*%d MiB, %s; %d rounds of %v*\n\n", c.Size>>20, c.What, *rounds, *turn)
		if err := chunk.WriteTable(w, c, results); err != nil {
			return err
		}
	}
	return nil
}

// parse reads the flags.
func parse() (cases []chunk.Case, err error) {
	if *rounds < 1 || *turn <= 0 {
		return nil, fmt.Errorf("-rounds and -turn are above 0")
	}
	for _, key := range strings.Split(*only, ",") {
		i := slices.IndexFunc(chunk.Cases, func(c chunk.Case) bool { return c.Key == strings.TrimSpace(key) })
		if i < 0 {
			return nil, fmt.Errorf("-only %q: there are file, file-lines, waits, waits-lines and waits-deflate", key)
		}
		cases = append(cases, chunk.Cases[i])
	}
	return cases, nil
}
