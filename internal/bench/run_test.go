package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// All suites, from end to end: every figure has its values, its rival and its command, and every load is recorded.
func TestRunAll(t *testing.T) {
	redis := true
	if _, err := exec.LookPath("redis-server"); err != nil {
		redis = false // TestValuesAreTheSame says what to install
	}
	profiles := t.TempDir()
	var last Progress
	r, err := Run(t.Context(), Config{Effort: tiny(), Version: "v1.2.3", Profiles: profiles, Progress: func(p Progress) {
		if p.Done < last.Done || p.Done > p.Total || p.Suite == "" {
			t.Errorf("progress %+v after %+v", p, last)
		}
		last = p
	}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Interrupted || r.Rounds != tiny().Rounds || r.Machine.Millrace != "v1.2.3" || r.Command != "millrace bench --rounds 2" {
		t.Errorf("%+v", r)
	}
	for _, s := range r.Suites {
		want := Finished
		if s.Name == "redis" && !redis {
			want = Skipped
		}
		if s.State != want || s.Command != "millrace bench "+s.Name+" --rounds 2" {
			t.Errorf("%+v", s)
		}
		if figures := r.FiguresOf(s.Name); want == Finished && len(figures) < 4 {
			t.Errorf("%s has %d figures", s.Name, len(figures))
		}
	}
	names := make(map[string]bool)
	for _, f := range r.Figures {
		checkFigure(t, f)
		if names[f.Name] {
			t.Errorf("two figures are called %s", f.Name)
		}
		names[f.Name] = true
	}
	checkRecordings(t, r, redis)
	if found, _ := filepath.Glob(filepath.Join(profiles, "relay-latency-0", "*.pprof")); len(found) != 2 {
		t.Errorf("profiles of a relay: %v", found)
	}
}

func checkFigure(t *testing.T, f Figure) {
	t.Helper()
	command := "millrace bench " + f.Suite + " --rounds 2"
	if !strings.HasPrefix(f.Name, f.Suite+"/") || f.What == "" || f.Unit == "" || f.Command != command {
		t.Errorf("%+v", f)
	}
	if len(f.Values) != 2 || f.Min > f.Median || f.Median > f.Max {
		t.Errorf("%s: %+v", f.Name, f.Measured)
	}
	if f.Rival == nil || f.Ratio == nil {
		t.Errorf("%s: rival %v, ratio %v", f.Name, f.Rival, f.Ratio)
	}
}

func checkRecordings(t *testing.T, r *Report, redis bool) {
	t.Helper()
	want := []string{
		"redis redisbuf GetToBuffer", "redis go-redis Get().Bytes", "files chunk.FileServer", "files http.FileServer",
		"relay millrace serve --latency 0", "relay millrace serve --latency 50ms",
	}
	if !redis {
		want = want[2:]
	}
	var got []string
	for _, rec := range r.Recordings {
		got = append(got, rec.Suite+" "+rec.Contender)
		var operations, goroutines int64
		var p99 time.Duration
		under := rec.Server
		if under == nil {
			under = rec.Load
		}
		for _, s := range rec.Load.Samples {
			operations += s.Load.Operations
			p99 = max(p99, s.Load.P99)
			if s.Load.P50 > s.Load.P95 || s.Load.P95 > s.Load.P99 {
				t.Errorf("%s %s: latencies %+v", rec.Suite, rec.Contender, s.Load)
			}
		}
		for _, s := range under.Samples {
			goroutines = max(goroutines, s.Runtime.Goroutines)
		}
		if operations == 0 || p99 == 0 || goroutines == 0 || under.Kernel.PageFaults.Source == "" {
			t.Errorf("%s %s: %d operations, p99 %v, %d goroutines, %+v",
				rec.Suite, rec.Contender, operations, p99, goroutines, under.Kernel)
		}
		if (rec.Server == nil) != (rec.Suite == "redis") {
			t.Errorf("%s %s: a server's timeline: %v", rec.Suite, rec.Contender, rec.Server != nil)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("recordings %q, want %q", got, want)
	}
}

// Whenever it is interrupted, a benchmark ends soon and in good order, and has what was measured.
func TestRunInterrupted(t *testing.T) {
	for _, tt := range []struct {
		suites  []string
		after   int // calls of Progress
		figures int // at least
		states  []State
	}{
		{[]string{"reader", "arena"}, 1, 0, []State{Measuring, NotReached}},
		{[]string{"reader", "arena"}, 8, 2, []State{Measuring, NotReached}},
		{[]string{"files", "relay"}, 1, 0, []State{Measuring, NotReached}},
		{[]string{"files", "relay"}, 6, 4, []State{Measuring, NotReached}},
		{[]string{"relay"}, 1, 0, []State{Measuring}},
		{[]string{"relay"}, 4, 6, []State{Measuring}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		r, err := Run(ctx, Config{Suites: tt.suites, Effort: tiny(), Progress: func(Progress) {
			if calls++; calls == tt.after {
				cancel()
			}
		}})
		cancel()
		if !errors.Is(err, ErrInterrupted) || !r.Interrupted {
			t.Errorf("%v after %d turns: %v", tt.suites, tt.after, err)
		}
		var states []State
		for _, s := range r.Suites {
			states = append(states, s.State)
		}
		if !slices.Equal(states, tt.states) || len(r.Figures) < tt.figures {
			t.Errorf("%v after %d turns: %v, %d figures", tt.suites, tt.after, states, len(r.Figures))
		}
		var text strings.Builder
		if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "INTERRUPTED") {
			t.Errorf("%v:\n%s", err, &text)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	for _, tt := range []struct {
		change func(*Config)
		says   string
	}{
		{func(c *Config) { c.Suites = []string{"dance"} }, `no suite "dance": there are reader, stackbuf`},
		{func(c *Config) { c.Effort.Rounds = 0 }, "--rounds is 0"},
		{func(c *Config) { c.Effort.Rounds = mostRounds + 1 }, "--rounds is 1001"},
		{func(c *Config) { c.Effort.Turn = 0 }, "more than 0"},
		{func(c *Config) { c.Effort.Viewers = 0 }, "0 viewers"},
	} {
		cfg := Config{Effort: tiny()}
		tt.change(&cfg)
		if r, err := Run(t.Context(), cfg); r != nil || err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v, want %q", err, tt.says)
		}
	}
}

// A suite that fails says why, and the others run.
func TestRunFails(t *testing.T) {
	cfg := Config{Suites: []string{"files", "arena"}, Effort: tiny(), Command: []string{"/nonexistent/millrace"}}
	r, err := Run(t.Context(), cfg)
	if err == nil || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "bench: files: chunk.FileServer") {
		t.Error(err)
	}
	state := map[string]State{}
	for _, s := range r.Suites {
		state[s.Name] = s.State
	}
	if state["files"] != Failed || state["arena"] != Finished || len(r.FiguresOf("arena")) == 0 {
		t.Errorf("%v", state)
	}
}

// The commands of a report measure the same again.
func TestCommand(t *testing.T) {
	for _, tt := range []struct {
		quick  bool
		rounds int
		suites []string
		want   string
	}{
		{false, DefaultEffort().Rounds, nil, "millrace bench"},
		{false, DefaultEffort().Rounds, []string{All}, "millrace bench all"},
		{false, DefaultEffort().Rounds, []string{"reader"}, "millrace bench reader --rounds 9"},
		{false, 21, nil, "millrace bench --rounds 21"},
		{true, QuickEffort().Rounds, nil, "millrace bench --quick"},
		{true, 5, []string{"arena"}, "millrace bench arena --quick --rounds 5"},
	} {
		e := DefaultEffort()
		e.Rounds = tt.rounds
		if got := (Config{Quick: tt.quick, Effort: e}).command(tt.suites...); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestMachine(t *testing.T) {
	files := map[string]string{
		"/proc/cpuinfo":              "processor\t: 0\nmodel name\t: Some CPU: 3 GHz\n\nprocessor\t: 1\nmodel name\t: Other\n",
		"/proc/sys/kernel/osrelease": "6.1.0\n", "/proc/meminfo": "MemTotal:       2097152 kB\nMemFree: 1 kB\n",
		"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n", "/proc/loadavg": "0.50 1 2 1/9 7\n",
	}
	m := Machine{CPU: "arm64", Kernel: "linux"}
	m.describe(func(name string) string { return files[name] })
	want := Machine{CPU: "Some CPU: 3 GHz", Kernel: "Linux 6.1.0", Memory: 2 << 30, Governor: "powersave", LoadBefore: "0.50"}
	if m != want {
		t.Errorf("%+v", m)
	}
	if s := m.String(); !strings.Contains(s, "2.0 GiB") || !strings.Contains(s, "governor powersave") {
		t.Error(s)
	}
	none := Machine{CPU: "arm64", Kernel: "darwin"}
	none.describe(func(string) string { return "" })
	if none != (Machine{CPU: "arm64", Kernel: "darwin"}) {
		t.Errorf("%+v", none)
	}
}
