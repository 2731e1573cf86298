// Command bench-chunk compares ways to read a source to its end and to work on all that is in it, in interleaved rounds: a
// plain loop, bufio, klauspost's readahead and chunk.Reader; and ways to send a file, with whose buffer, and by how many.
//
//	go run ./cmd/bench-chunk
//	go run ./cmd/bench-chunk -only file,file-lines -rounds 31
//	go run ./cmd/bench-chunk -only splice,copybuffer,workers
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/chunk"
	"github.com/millrace-io/millrace/bench/measure"
)

var (
	rounds = flag.Int("rounds", 9, "rounds")
	turn   = flag.Duration("turn", 60*time.Millisecond, "length of each turn; at least one run")
	only   = flag.String("only", strings.Join(chunk.Keys(), ","), "tables")
)

func main() {
	flag.Parse()
	if err := run(os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer) error {
	parts, err := parse()
	if err != nil {
		return err
	}
	site, err := chunk.NewSite(chunk.FileSize)
	if err != nil {
		return err
	}
	defer site.Close()
	fmt.Fprintln(w, measure.Header())
	for _, p := range parts {
		fmt.Fprintf(w, "\n*%s; %d rounds of %v*\n\n", p.Caption(), *rounds, *turn)
		if err := p.Write(w, site, *rounds, *turn); err != nil {
			return err
		}
	}
	return nil
}

// parse reads the flags.
func parse() (parts []chunk.Part, err error) {
	if *rounds < 1 || *turn <= 0 {
		return nil, fmt.Errorf("-rounds and -turn are above 0")
	}
	for _, key := range strings.Split(*only, ",") {
		more := chunk.Parts(strings.TrimSpace(key))
		if more == nil {
			return nil, fmt.Errorf("-only %q: there are %s", key, strings.Join(chunk.Keys(), ", "))
		}
		parts = append(parts, more...)
	}
	return parts, nil
}
