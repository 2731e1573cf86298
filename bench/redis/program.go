package redis

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Program is the Redis benchmark. It makes one table for each combination of a task and a number of
// goroutines, and one table for the latency of small GETs while large values are transferred.
var Program = &measure.Program{
	Name: "redis", What: "large values in and out of Redis", Rounds: 15,
	Turn:  40 * time.Millisecond,
	Parts: []string{"get", "set", "serve", "beside"},
	Brief: []string{"-rounds", "9", "-turn", "100ms", "-sizes", "1KiB,64KiB,1MiB"},
	Flags: func(f *flag.FlagSet) {
		f.StringVar(&options.sizes, "sizes", "1KiB,4KiB,64KiB,1MiB,10MiB", "sizes of values")
		f.StringVar(&options.goroutines, "goroutines", "1,8", "how many make calls at a time")
		f.DurationVar(&options.beside, "beside", 2*time.Second,
			"length of each turn of small values beside large ones")
	},
	Run: run,
}

var options struct {
	sizes, goroutines string
	beside            time.Duration
}

func run(ctx context.Context, p *measure.Params) error {
	sizes, err := parseSizes(options.sizes)
	if err != nil {
		return err
	}
	srv, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer srv.stop()
	for _, t := range tasks {
		if !p.Wants(t.key) {
			continue
		}
		for _, size := range sizes {
			for _, c := range t.contenders {
				if err := c.check(ctx, srv, t, size); err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, measure.SizeName(size), err)
				}
			}
		}
		p.Logf("redis: %s: all contenders move the same bytes", t.key)
		for _, n := range strings.Split(options.goroutines, ",") {
			goroutines, err := strconv.Atoi(n)
			if err != nil || goroutines < 1 {
				return fmt.Errorf("-goroutines %q", n)
			}
			if err := t.run(ctx, p, srv, sizes, goroutines); err != nil {
				return err
			}
		}
	}
	if p.Wants("beside") {
		return runBeside(ctx, p, srv)
	}
	return nil
}

func (t task) run(ctx context.Context, p *measure.Params, srv *server, sizes []int,
	goroutines int) error {
	columns := []string{"contender"}
	rows := make([][]any, len(t.contenders)+1)
	rows[0] = []any{t.contenders[0].name + ", µs a call (client CPU)"}
	for i, c := range t.contenders {
		rows[i+1] = []any{c.name}
	}
	var costs []measure.Cost
	for _, size := range sizes {
		p.Logf("redis: %s, %s, %d goroutines", t.what, measure.SizeName(size), goroutines)
		f, err := srv.newFixture(ctx, size)
		if err != nil {
			return err
		}
		costs, err = t.measure(ctx, p, f, goroutines)
		f.close()
		if err != nil {
			return fmt.Errorf("%s, %s: %w", t.what, measure.SizeName(size), err)
		}
		columns = append(columns, measure.SizeName(size), "CPU")
		raw := costs[0]
		rows[0] = append(rows[0], fmt.Sprintf("%.1f", raw.Nanos.Median()/1e3),
			fmt.Sprintf("%.1f", raw.CPU.Median()/1e3))
		for i, c := range costs {
			rows[i+1] = append(rows[i+1], c.Nanos.Over(raw.Nanos), c.CPU.Over(raw.CPU).Median())
		}
	}
	for i, c := range costs {
		rows[i+1] = append(rows[i+1], c.Bytes.Whole(), c.Allocs.Whole())
	}
	table := measure.NewTable(fmt.Sprintf("redis-%s-%d", t.key, goroutines),
		fmt.Sprintf("%s, %s, %d rounds: time and client CPU, x the first contender's", t.what,
			goroutineNames(goroutines), p.Rounds),
		append(columns, "B/op, last size", "allocs/op")...)
	table.Note = srv.version + " over TCP on loopback."
	for _, row := range rows {
		table.Row(row...)
	}
	return p.Add(table)
}

func goroutineNames(n int) string {
	if n == 1 {
		return "one goroutine"
	}
	return fmt.Sprintf("%d goroutines", n)
}

func (t task) measure(ctx context.Context, p *measure.Params, f *fixture,
	goroutines int) ([]measure.Cost, error) {
	var all []measure.Contender
	for _, c := range t.contenders {
		w, err := assemble(ctx, c, f, goroutines)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		defer w.dismiss()
		all = append(all, measure.Contender{Name: c.name,
			Turn: func(n int) (turn measure.Turn, err error) {
				// Reopen closed connections and refill empty pools.
				if err := w.makeCalls(1); err != nil {
					return turn, err
				}
				turn = measure.Take(n*goroutines, func() { err = w.makeCalls(n) })
				return turn, err
			}})
	}
	return measure.Compare(ctx, all, p.Rounds, p.Turn)
}

// check makes two calls with a contender. It returns an error if a call does not transfer the
// value.
func (c contender) check(ctx context.Context, srv *server, t task, size int) error {
	const calls = 2
	f, err := srv.newFixture(ctx, size)
	if err != nil {
		return err
	}
	defer f.close()
	var seen bytes.Buffer
	f.audit = func(p []byte) { seen.Write(p) }
	if err := f.goredis.Del(ctx, setKey).Err(); err != nil {
		return err
	}
	w, err := assemble(ctx, c, f, 1)
	if err != nil {
		return err
	}
	err = w.makeCalls(calls)
	w.dismiss()
	if err != nil {
		return err
	}
	want := bytes.Repeat(f.value(), calls)
	if t.key == "set" {
		want = f.value()
		value, err := f.goredis.Get(ctx, setKey).Bytes()
		if err != nil {
			return err
		}
		seen.Write(value)
	}
	if !bytes.Equal(seen.Bytes(), want) {
		return fmt.Errorf("%d bytes that are not the %d of the value", seen.Len(), len(want))
	}
	return nil
}

func parseSizes(list string) (sizes []int, err error) {
	for _, name := range strings.Split(list, ",") {
		n, err := measure.ParseSize(strings.TrimSpace(name))
		if err != nil || n > 512<<20 { // maximum size of a Redis value
			return nil, fmt.Errorf("-sizes %q: want 1 to 512MiB, such as 4KiB", name)
		}
		sizes = append(sizes, n)
	}
	return sizes, nil
}
