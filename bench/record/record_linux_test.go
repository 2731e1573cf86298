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
	stop, err := c.serve(100_000)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	dir := t.TempDir()
	r, err := Start(Options{Interval: 100 * time.Millisecond, Load: c.take, Conns: c.conns, Profiles: dir, Bpftrace: bpftrace, Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	timeout := time.After(time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- c.run(ctx, 4) }()
	for range 20 {
		garbage = make([]byte, 1<<20)
	}
	<-timeout
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	line, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"record-cpu.pprof", "record-heap.pprof"} {
		if info, err := os.Stat(dir + "/" + name); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	return line
}

var garbage []byte

// check looks at the sum of a record's intervals.
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
		t.Errorf("%d operations, %d bytes allocated, %d faults, %v of waiting: %+v", ops, allocated, faults, waits, line)
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

// TestAddTraced gives bpftrace's intervals to samples by their time.
func TestAddTraced(t *testing.T) {
	samples := []Sample{{At: time.Second, Length: time.Second}, {At: 2 * time.Second, Length: time.Second}}
	addTraced(samples, 5e9, []string{
		`{"type": "printf", "data": "4900000000"}`, // before the record
		`{"type": "map", "data": {"@retransmits": 100}}`,
		`{"type": "printf", "data": "6500000000"}`,
		`{"type": "map", "data": {"@retransmits": 3}}`,
		`{"type": "hist", "data": {"@wait": [{"min": 0, "max": 1023, "count": 98}, {"min": 1024, "max": 2047, "count": 2}]}}`,
		`{"type": "printf", "data": "6900000000"}`,
		`{"type": "map", "data": {"@retransmits": 4}}`,
		`not JSON`,
	})
	if k := samples[0].Kernel; k != (Kernel{}) {
		t.Errorf("the first interval has %+v", k)
	}
	if k := samples[1].Kernel; k != (Kernel{Retransmits: 7, RunQueue: 2047}) {
		t.Errorf("the second interval has %+v", k)
	}
}

func TestProgram(t *testing.T) {
	var out strings.Builder
	args := []string{"-seconds", "1", "-interval", "200ms", "-clients", "2", "-bpftrace=false", "-out", t.TempDir()}
	if err := Program.Main(t.Context(), args, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n| "); n < 6 {
		t.Errorf("%d lines:\n%s", n, &out)
	}
	if err := Program.Main(t.Context(), []string{"-url", "http://127.0.0.1:1/", "-seconds", "1", "-bpftrace=false"}, &out, t.Output()); err == nil {
		t.Error("no error although no request succeeds")
	}
}
