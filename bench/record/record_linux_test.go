package record

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/bench/measure/benchtest"
	"github.com/millrace-io/millrace/internal/testkit/need"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

// record records a second of a load, with 20 MB of garbage and a collection in it.
func record(t *testing.T, bpftrace bool) *Timeline {
	t.Helper()
	c := new(clients)
	dir := t.TempDir()
	stop, err := c.serve(dir, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	o := Options{
		Interval: 100 * time.Millisecond, Load: c.take, Conns: c.conns, Profiles: dir,
		Bpftrace: bpftrace, Logf: t.Logf,
	}
	line, err := Record(o, func() error {
		for range 20 {
			garbage = make([]byte, 1<<20)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return c.run(ctx, 4)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"record-cpu.pprof", "record-heap.pprof"} {
		if info, err := os.Stat(dir + "/" + name); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, want a file with content", name, err)
		}
	}
	return line
}

var garbage []byte

// check checks the sum of a record's intervals.
func check(t *testing.T, line *Timeline) {
	t.Helper()
	var ops, allocated, faults int64
	var length, waits time.Duration
	for _, s := range line.Samples {
		ops += s.Load.Operations
		allocated += int64(s.Runtime.AllocBytes)
		faults += s.Kernel.MinorFaults
		waits += s.Kernel.RunQueue
		length += s.Length
		if s.Load.Operations > 0 && s.Load.P50 > s.Load.P99 {
			t.Errorf("a median of %v above the p99 of %v", s.Load.P50, s.Load.P99)
		}
	}
	if last := line.Samples[len(line.Samples)-1]; length != last.At || length < time.Second {
		t.Errorf("intervals of %v in all, and the last ends at %v", length, last.At)
	}
	if ops == 0 || allocated < 20<<20 || faults == 0 || waits == 0 {
		t.Errorf("%d operations, %d bytes allocated, %d faults, %v of waiting: %+v", ops, allocated,
			faults, waits, line)
	}
}

func TestRecord(t *testing.T) {
	line := record(t, false)
	check(t, line)
	if line.Kernel != "TCP_INFO and schedstat" {
		t.Errorf("the kernel is watched by %s", line.Kernel)
	}
	rtt := time.Duration(0)
	for _, s := range line.Samples {
		rtt = max(rtt, s.Kernel.RTT)
	}
	if rtt == 0 {
		t.Error("no connection had a round trip")
	}
}

func TestBpftrace(t *testing.T) {
	need.Program(t, "bpftrace")
	if os.Geteuid() != 0 {
		need.Missing(t, "to be root, because bpftrace may attach only then")
	}
	line := record(t, true)
	if line.Note != "" {
		need.Missing(t, "a kernel that bpftrace may attach to: "+line.Note)
	}
	check(t, line)
}

// TestTracer checks the sum of bpftrace's output in an interval.
func TestTracer(t *testing.T) {
	var tracer tracer
	for range 2 {
		for _, line := range []string{
			`{"type": "printf", "data": "attached"}`,
			`{"type": "map", "data": {"@retransmits": 3}}`,
			`{"type": "hist", "data": {"@wait": [{"min": 0, "max": 1023, "count": 98}, {"min": 1024, "max": 2047, "count": 2}]}}`,
			`{"type": "map", "data": {"@retransmits": 4}}`,
			`not JSON`,
		} {
			tracer.add(line)
		}
		var got Kernel
		if tracer.take(&got); got != (Kernel{Retransmits: 7, RunQueue: 2047}) {
			t.Errorf("%+v, want 7 retransmits and a run queue of 2047", got)
		}
	}
	var none Kernel
	if tracer.take(&none); none != (Kernel{}) {
		t.Errorf("what was taken is there again: %+v", none)
	}
}

func TestProgram(t *testing.T) {
	var out strings.Builder
	args := []string{"-seconds", "1", "-interval", "200ms", "-clients", "2", "-bpftrace=false",
		"-out", t.TempDir()}
	if err := Program.Main(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n| "); n < 6 {
		t.Errorf("%d lines, want 6 or more:\n%s", n, &out)
	}
	if err := Program.Main(t.Context(), []string{"-url", "http://127.0.0.1:1/", "-seconds", "1",
		"-bpftrace=false"}, &out, t.Output()); err == nil {
		t.Error("no error although no request succeeds")
	}
}
