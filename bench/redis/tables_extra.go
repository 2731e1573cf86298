package redis

import (
	"fmt"
	"io"

	"github.com/millrace-io/millrace/bench/measure"
)

// WriteCalls writes the table of system calls.
func WriteCalls(w io.Writer, all []SystemCalls) {
	fmt.Fprintf(w, "\n*System calls a call at %s, under strace*\n\n", SizeName(countedSize))
	t := measure.NewTable("contender", "socket calls", "writes", "reads", "of these in vain", "splice, sendfile", "epoll_pwait")
	for _, c := range all {
		t.Row(c.Contender, c.Writes+c.Reads+c.Moves, c.Writes, c.Reads, c.InVain, c.Moves, c.Waits)
	}
	t.WriteTo(w)
}

// WriteBeside writes the table of small GETs beside large values.
func (p *Plan) WriteBeside(w io.Writer, all []Beside) {
	fmt.Fprintf(w, "\n*Small GETs on a go-redis client, %d at a time, while a value of 10 MB is got and another is set every %v; "+
		"%d rounds of %v*\n\n", smallCallers, largeEvery, p.Rounds, p.Beside)
	t := measure.NewTable("large values by", "p50 µs", "p99 µs", "p99 x alone", "large MB/s", "client CPU s/s")
	for _, b := range all {
		t.Row(b.Name, b.P50.Times(1e-3), b.P99.Times(1e-3), b.P99.Over(all[0].P99), b.Moved.Times(1e-6).Median(), b.CPU.Median())
	}
	t.WriteTo(w)
}

// WriteIdle writes the table of idle connections.
func (p *Plan) WriteIdle(w io.Writer, all []Idle, n int) {
	fmt.Fprintf(w, "\n*%d idle connections, after a value of %s each, %d rounds*\n\n", n, SizeName(idleSize), p.Rounds)
	t := measure.NewTable("client", "heap bytes a connection", "stack bytes a connection")
	for _, i := range all {
		t.Row(i.Name, i.Heap.Median(), i.Stack.Median())
	}
	t.WriteTo(w)
}

// WriteFloor writes the table of redis-benchmark and redisbuf.
func (p *Plan) WriteFloor(w io.Writer, all []Floor) {
	fmt.Fprintf(w, "\n*redisbuf's GetToBuffer and SetFromBuffer beside redis-benchmark: µs a call, and of these the client's CPU; "+
		"%d rounds of %v*\n\n", p.Rounds, floorTurns*p.Turn)
	t := measure.NewTable("call", "clients", "size", "redis-benchmark µs", "CPU µs", "redisbuf µs", "CPU µs",
		"time x redis-benchmark's", "CPU x")
	for _, f := range all {
		t.Row(f.Call, f.Clients, SizeName(f.Size), f.Theirs.Nanos.Times(1e-3), f.Theirs.CPU.Times(1e-3).Median(),
			f.Ours.Nanos.Times(1e-3), f.Ours.CPU.Times(1e-3).Median(), f.Ours.Nanos.Over(f.Theirs.Nanos),
			f.Ours.CPU.Over(f.Theirs.CPU).Median())
	}
	t.WriteTo(w)
}
