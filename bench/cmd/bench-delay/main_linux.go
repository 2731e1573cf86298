// Command bench-delay compares how fast a file comes over a line that takes its time, from servers with send buffers of
// different sizes. It needs root.
//
//	go run ./cmd/bench-delay -rtt 80ms -size 256 -rounds 5
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/bench/delay"
	"github.com/millrace-io/millrace/bench/measure"
	"github.com/millrace-io/millrace/internal/crossover"
)

func main() {
	log.SetFlags(log.Ltime)
	rtt := flag.Duration("rtt", 80*time.Millisecond, "how long a packet takes there and back")
	size := flag.Int64("size", 256, "MiB of the file")
	rounds := flag.Int("rounds", 5, "rounds")
	flag.Parse()
	ctx, stop := measure.UntilStopped()
	defer stop()
	if err := run(ctx, os.Stdout, *rtt, *size<<20, *rounds); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, rtt time.Duration, size int64, rounds int) error {
	dir, err := os.MkdirTemp("", "bench-delay")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // nginx's worker is another user
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), make([]byte, size), 0o644); err != nil {
		return err
	}
	servers, err := measure.Present(delay.Contenders, delay.Contender.Check, log.Printf)
	if err != nil {
		return err
	}
	line, err := delay.NewLine(rtt)
	if err != nil {
		return err
	}
	defer line.Close()
	took := make([]measure.Series, len(servers))
	for round := range rounds {
		for _, i := range crossover.Order(len(servers), round) {
			d, err := line.Download(ctx, servers[i], dir, "file", size)
			if err != nil {
				return err
			}
			log.Printf("round %d, %s: %v", round+1, servers[i].Name(), d.Round(time.Millisecond))
			took[i] = append(took[i], d.Seconds())
		}
	}
	fmt.Fprintf(out, "\n%s\n\n*%d MiB, one connection, %v there and back, %d rounds*\n\n", measure.Header(), size>>20, rtt, rounds)
	t := measure.NewTable("contender", "s", "MB/s", "x ours")
	for i, s := range servers {
		speed := make(measure.Series, len(took[i]))
		for j, d := range took[i] {
			speed[j] = float64(size) / d / 1e6
		}
		t.Row(s.Name(), took[i], speed, took[i].Over(took[0]))
	}
	_, err = t.WriteTo(out)
	return err
}
