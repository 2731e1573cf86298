package observe

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// traces counts this process's descriptors of eBPF and of tracepoints. Others come and go: the net package keeps pipes.
func traces(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		name, _ := os.Readlink("/proc/self/fd/" + fd.Name()) // the directory's own is gone
		if strings.Contains(name, "bpf") || strings.Contains(name, "perf_event") {
			n++
		}
	}
	return n
}

// spend has something happen in all layers below the load.
func spend() {
	for range 20 {
		kept = make([]byte, 1<<20)
		for i := 0; i < len(kept); i += 4096 {
			kept[i] = 1
		}
	}
	kept = nil
	runtime.GC()
	time.Sleep(2 * MinInterval)
}

// Whatever this machine allows, a Recorder works and says by which source. Nothing is open after it.
func TestKernelSources(t *testing.T) {
	for _, test := range []struct {
		name string
		from KernelSource
	}{{"auto", KernelAuto}, {"tracepoints", KernelTracepoints}, {"proc", KernelProc}, {"none", KernelNone}} {
		t.Run(test.name, func(t *testing.T) {
			r, err := Start(Options{Interval: MinInterval, Kernel: test.from})
			if err != nil && test.from == KernelTracepoints {
				t.Skipf("the kernel does not let this process trace: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			spend()
			tl, err := r.Stop()
			if err != nil {
				t.Fatal(err)
			}
			checkTimeline(t, tl, test.from)
		})
		if n := traces(t); n != 0 {
			t.Errorf("%s: %d descriptors are left after Stop", test.name, n)
		}
	}
}

func checkTimeline(t *testing.T, tl *Timeline, from KernelSource) {
	t.Helper()
	var sum Sample
	for _, s := range tl.Samples {
		sum = sum.merged(s)
	}
	if sum.Runtime.GCs == 0 || sum.Runtime.AllocatedBytes < 20<<20 || sum.Runtime.Goroutines == 0 {
		t.Errorf("runtime: %+v", sum.Runtime)
	}
	k := sum.Kernel
	for name, m := range map[string]Metric{
		"retransmits": tl.Kernel.Retransmits, "RTT": tl.Kernel.RTT,
		"run queue": tl.Kernel.RunQueue, "page faults": tl.Kernel.PageFaults,
	} {
		t.Logf("%s: %s, of %s (%s)", name, m.Source, m.Scope, m.Why)
		if traced := m.Source == SourceTracepoint; traced == (m.Why != "") || traced && from >= KernelProc {
			t.Errorf("%s: %+v", name, m)
		}
		if (m.Source == SourceNone) != (m.Scope == "") {
			t.Errorf("%s: %+v has no scope", name, m)
		}
	}
	if from == KernelNone {
		if k != (KernelSample{}) {
			t.Errorf("a kernel layer that nobody asked for: %+v", k)
		}
		return
	}
	if k.RunQueue.Count == 0 && tl.Kernel.RunQueue.Source != SourceNone || k.UserCPU+k.SystemCPU <= 0 {
		t.Errorf("kernel: %+v", k)
	}
}

// fakeSystem has files of /proc that a test may change, and no tracefs.
func fakeSystem(t *testing.T) system {
	t.Helper()
	root := t.TempDir()
	sys := system{proc: root + "/proc", tracefs: []string{root + "/none", root + "/tracing"}}
	for _, err := range []error{
		os.MkdirAll(sys.proc+"/self/net", 0o700),
		os.MkdirAll(sys.proc+"/self/ns", 0o700),
		os.Symlink(initialPIDs, sys.proc+"/self/ns/pid"),
		os.Symlink("/proc/self/task", sys.proc+"/self/task"),
		os.WriteFile(sys.proc+"/self/net/snmp", []byte(snmpFile), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return sys
}

// Each piece that is missing takes its figure down to the next source, and no other.
func TestFallBack(t *testing.T) {
	for _, test := range []struct {
		name   string
		from   KernelSource
		remove func(t *testing.T, sys *system)
		want   func(r KernelReport) (Metric, Source)
		why    string
	}{
		{"no tracefs", KernelAuto, func(*testing.T, *system) {},
			func(r KernelReport) (Metric, Source) { return r.PageFaults, SourceRusage }, "page_fault_user/format"},
		{"no tracefs, nowhere", KernelAuto, func(_ *testing.T, sys *system) { sys.tracefs = nil },
			func(r KernelReport) (Metric, Source) { return r.Retransmits, SourceSNMP }, "no tracefs"},
		{"no connections", KernelAuto, func(*testing.T, *system) {},
			func(r KernelReport) (Metric, Source) { return r.RTT, SourceNone }, errNoConns.Error()},
		{"no snmp", KernelProc, func(_ *testing.T, sys *system) { os.Remove(sys.proc + "/self/net/snmp") },
			func(r KernelReport) (Metric, Source) { return r.Retransmits, SourceNone }, "no such file"},
		{"no schedstat", KernelProc, func(_ *testing.T, sys *system) { os.Remove(sys.proc + "/self/task") },
			func(r KernelReport) (Metric, Source) { return r.RunQueue, SourceNone }, "no such file"},
		{"a PID namespace", KernelAuto, func(t *testing.T, sys *system) {
			sys.tracefs = thisSystem.tracefs
			os.Remove(sys.proc + "/self/ns/pid")
			if err := os.Symlink("pid:[4026532000]", sys.proc+"/self/ns/pid"); err != nil {
				t.Fatal(err)
			}
		}, func(r KernelReport) (Metric, Source) { return r.RunQueue, SourceSchedstat }, "PID namespace"},
		{"no /proc/self/ns", KernelAuto, func(t *testing.T, sys *system) {
			sys.tracefs = thisSystem.tracefs
			os.RemoveAll(sys.proc + "/self/ns")
		}, func(r KernelReport) (Metric, Source) { return r.PageFaults, SourceRusage }, "no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sys := fakeSystem(t)
			test.remove(t, &sys)
			k, err := openKernel(sys, Options{Kernel: test.from})
			if err != nil {
				t.Fatal(err)
			}
			var s KernelSample
			k.read(&s)
			if got, want := test.want(k.report()); got.Source != want || !strings.Contains(got.Why, test.why) {
				t.Errorf("%+v, want %s because of %q", got, want, test.why)
			}
			if err := k.close(); err != nil {
				t.Error(err)
			}
		})
	}
	if n := traces(t); n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}

// Records of another shape than the programs need are refused, before anything is attached.
func TestFallBackFromAStrangeRecord(t *testing.T) {
	if !mayTrace(t) {
		t.Skip("the kernel does not let this process trace")
	}
	for _, test := range []struct{ name, switched, why string }{
		{"no field", "field:int x;\toffset:8;\tsize:4;\n", "no field"},
		{"no number", "field:int next_pid;\toffset:8;\tsize:3;\n", "no number"},
		{"unaligned", "field:int next_pid;\toffset:9;\tsize:4;\n", "no number"},
		{"no format", "?", "format without fields"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sys := fakeSystem(t)
			root := sys.tracefs[1] + "/events/sched/"
			for name, file := range map[string]string{"sched_wakeup": wakeupFormat, "sched_switch": test.switched} {
				if err := os.MkdirAll(root+name, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(root+name+"/format", []byte(file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			k, err := openKernel(sys, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer k.close()
			if m := k.report().RunQueue; m.Source != SourceSchedstat || !strings.Contains(m.Why, test.why) {
				t.Errorf("%+v, want schedstat because of %q", m, test.why)
			}
		})
	}
	if n := traces(t); n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}

// KernelTracepoints has nothing else, and leaves nothing behind where there are none.
func TestTracepointsOrNothing(t *testing.T) {
	sys := fakeSystem(t)
	k, err := openKernel(sys, Options{Kernel: KernelTracepoints})
	if err == nil {
		k.close()
		t.Fatal("opened without tracefs")
	}
	if !strings.Contains(err.Error(), "no tracepoint for retransmits") {
		t.Error(err)
	}
	if n := traces(t); n != 0 {
		t.Errorf("%d descriptors are left", n)
	}
}

// mayTrace reports whether this process may attach programs to tracepoints.
func mayTrace(t *testing.T) bool {
	t.Helper()
	k, err := openKernel(thisSystem, Options{Kernel: KernelTracepoints})
	if err != nil {
		t.Log(err)
		return false
	}
	if n := traces(t); n == 0 {
		t.Error("tracing takes no descriptor that this test knows")
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}
	return true
}
