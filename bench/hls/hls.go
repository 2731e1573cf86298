// Package hls compares the costs of servers that make HLS from a live stream. The servers run in
// turn, with the same viewers. Low-latency viewers wait for each part with a blocking reload of the
// playlist, and then fetch the part. Other viewers fetch whole segments.
//
// One viewer, the observer, compares every video and audio frame with the published frame. It also
// finds the last tag of each part. The age of a part at the other viewers is measured from the time
// at which that tag was published.
package hls

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/measure"
)

// Program is the HLS benchmark. It produces one table for each number of viewers.
var Program = &measure.Program{
	// A run takes about five minutes.
	Name: "hls", What: "a live stream to viewers of low-latency HLS and of HLS", Rounds: 3,
	Brief: []string{"-rounds", "1"},
	Parts: []string{"parts", "segments"},
	Flags: func(f *flag.FlagSet) {
		f.StringVar(&options.contenders, "contenders", "plain,nginx,millrace", "of "+specs+
			"; one ratio is to the first. nginx has no parts")
		f.StringVar(&options.parts, "parts", "200,1000", "numbers of viewers who get parts")
		f.StringVar(&options.segments, "segments", "1000", "numbers of viewers who get segments")
		f.IntVar(&options.seconds, "seconds", 6, "seconds measured of each turn")
		f.IntVar(&options.bitRate, "bitrate", 1_000_000, "bits a second of the stream")
	},
	Run: run,
}

var options struct {
	contenders, parts, segments string
	seconds, bitRate            int
}

var nan = math.NaN()

func parseNumbers(list string) (all []int, err error) {
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q viewers: want numbers such as 200,1000", s)
		}
		all = append(all, n)
	}
	return all, nil
}

func cases(p *measure.Params) (all []testCase, err error) {
	for _, parts := range []bool{true, false} {
		c := testCase{parts: parts, bitRate: options.bitRate,
			measure: time.Duration(options.seconds) * time.Second}
		list := options.segments
		c.ramp, c.settle = keyInterval, time.Second // spread the requests over the interval
		if parts {
			list, c.ramp = options.parts, time.Second
		}
		if !p.Wants(c.unit()) {
			continue
		}
		numbers, err := parseNumbers(list)
		if err != nil {
			return nil, err
		}
		for _, c.viewers = range numbers {
			all = append(all, c)
		}
	}
	return all, nil
}

func run(ctx context.Context, p *measure.Params) error {
	dir, err := os.MkdirTemp("", "bench-hls-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	all, err := parseContenders(options.contenders, dir)
	if err != nil {
		return err
	}
	list, err := cases(p)
	if err != nil {
		return err
	}
	prepare := func(c contender) error { return c.prepare(ctx) }
	if all, err = measure.Present(all, func(c contender) string { return c.name }, prepare,
		p.Logf); err != nil {
		return err
	}
	for _, c := range list {
		if err := c.run(ctx, p, all); err != nil {
			return err
		}
	}
	return nil
}

func (c testCase) run(ctx context.Context, p *measure.Params, all []contender) error {
	var able []contender
	for _, who := range all {
		if who.parts || !c.parts {
			able = append(able, who)
		}
	}
	if len(able) == 0 {
		return nil
	}
	results := make([][]*result, len(able))
	err := measure.Rounds(ctx, len(able), p.Rounds, func(round, i int) error {
		r, err := c.take(ctx, able[i])
		if err == nil && r.missing > 0 {
			err = fmt.Errorf("%d tags did not come", r.missing)
		}
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c, able[i].name, err)
		}
		results[i] = append(results[i], r)
		p.Logf("hls: round %d, %s, %s: CPU %.2f s/s, %.2f s/GB, generator %.2f s/s, %.0f requests/s, ended %v", round+1, c,
			able[i].name, r.server.Seconds()/r.seconds, r.server.Seconds()/float64(r.bytes)*1e9,
			r.generator.Seconds()/r.seconds,
			float64(r.requests)/r.seconds, r.ended)
		return nil
	})
	if err != nil {
		return err
	}
	return p.Add(c.table(able, results, p.Rounds))
}

func (c testCase) unit() string {
	if c.parts {
		return "parts"
	}
	return "segments"
}

func (c testCase) String() string { return fmt.Sprintf("%s to %d viewers", c.unit(), c.viewers) }

type column struct {
	name  string
	value func(*result) float64
}

func (c testCase) columns() []column {
	of := func(list func(*result) []time.Duration, q float64) func(*result) float64 {
		return func(r *result) float64 { return quantile(list(r), q) }
	}
	completing := func(r *result) []time.Duration { return r.completing }
	newest := func(r *result) []time.Duration { return r.newest }
	late := func(r *result) []time.Duration { return r.late }
	perGB := func(r *result) float64 { return r.server.Seconds() / float64(r.bytes) * 1e9 }
	common := []column{
		{"requests/s", func(r *result) float64 { return float64(r.requests) / r.seconds }},
		{"CPU µs a request", func(r *result) float64 {
			return float64(r.server.Microseconds()) / float64(r.requests)
		}},
		{"allocations a request", func(r *result) float64 { return r.perRequest }},
		{"RSS MB", func(r *result) float64 { return float64(r.rss) / (1 << 20) }},
		{c.unit() + " a reload", func(r *result) float64 {
			return float64(r.fetched) / float64(r.requests-r.fetched)
		}},
		{"ended early", func(r *result) float64 {
			n := 0
			for _, k := range r.ended {
				n += k
			}
			return float64(n)
		}},
		{"generator CPU s/s", func(r *result) float64 { return r.generator.Seconds() / r.seconds }},
		{"publishing late p99 ms", of(late, 0.99)},
	}
	if !c.parts {
		return append([]column{{"server CPU s/GB", perGB}}, common...)
	}
	return append([]column{
		{"server CPU ms a second for 1,000 viewers", func(r *result) float64 {
			return float64(r.server.Microseconds()) / r.seconds / float64(c.viewers)
		}},
		{"s/GB", perGB},
		{"playlists rendered a part", func(r *result) float64 { return r.perPart }},
		{"part p50 ms", of(completing, 0.5)},
		{"part p99 ms", of(completing, 0.99)},
		{"newest frame p50 ms", of(newest, 0.5)},
		{"newest frame p99 ms", of(newest, 0.99)},
	}, common...)
}

// table shows the results of each contender. It compares the CPU time of each contender with the
// CPU time of the first contender and of millrace serve.
func (c testCase) table(all []contender, results [][]*result, rounds int) *measure.Table {
	columns := c.columns()
	get := func(i int, col column) (s measure.Series) {
		for _, r := range results[i] {
			s = append(s, col.value(r))
		}
		return s
	}
	head := []string{"contender", "publisher's protocol", columns[0].name}
	bases := []int{0}
	for i, who := range all {
		if who.spec == "millrace" && i > 0 {
			bases = append(bases, i)
		}
	}
	for _, i := range bases {
		head = append(head, "CPU, x "+all[i].name)
	}
	for _, col := range columns[1:] {
		head = append(head, col.name)
	}
	what := "Low-latency HLS, parts"
	note := "A viewer waits for the playlist by a blocking reload, and then gets the part, on one connection. Part: from the tag " +
		"that completes a part, which is the picture after its last one, to its last byte at a viewer. Newest frame: from the last " +
		"tag in the part. Where a reload brings more than one part on average, or publishing is late, the machine was too busy: the " +
		"server then answers fewer requests, and its CPU time says little."
	if !c.parts {
		what = "HLS, whole segments"
		note = "A viewer asks for the playlist every target duration, and gets each new segment. A gigabyte is 10⁹ bytes of segments. " +
			"Allocations and requests are those of all requests."
	}
	t := measure.NewTable(fmt.Sprintf("hls-%s-%d", c.unit(), c.viewers),
		fmt.Sprintf("%s to %d viewers of a stream of %.2f Mbit/s, %d rounds of %d s",
			what, c.viewers, float64(c.bitRate)/1e6, rounds, int(c.measure.Seconds())), head...)
	t.Bar, t.Note = 2, note
	for i, who := range all {
		first := get(i, columns[0])
		row := []any{who.name, who.in, first}
		for _, base := range bases {
			row = append(row, first.Over(get(base, columns[0])))
		}
		for _, col := range columns[1:] {
			if s := get(i, col); len(s) > 0 && s[0] == s[0] {
				row = append(row, s)
			} else {
				row = append(row, "-")
			}
		}
		t.Row(row...)
	}
	return t
}
