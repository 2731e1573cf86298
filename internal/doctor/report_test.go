package doctor

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

var update = flag.Bool("update", false, "write what is printed to testdata")

// ailing is a container on a machine that lacks a lot.
func ailing() (*Host, Plan) {
	h := newHost(files{
		"proc/self/cgroup":                "0::/../secret\n",
		service + "memory.max":            gone,
		"sys/fs/cgroup/memory.max":        "2147483648\n",
		"sys/fs/cgroup/memory.swap.max":   "max\n",
		"sys/fs/cgroup/cpu.max":           "150000 100000\n",
		"sys/fs/cgroup/cpu.stat":          "nr_periods 1200\nnr_throttled 300\n",
		"proc/swaps":                      "Filename Type Size Used Priority\n/dev/sda2 partition 1048576 2048 -2\n",
		"net.core.somaxconn":              "128",
		"net.netfilter.nf_conntrack_max":  gone,
		"net.ipv4.tcp_wmem":               gone,
		"net.ipv4.tcp_congestion_control": "cubic",
		"vm.dirty_bytes":                  "0",
		"vm.dirty_ratio":                  "40",
		clockDir + "current_clocksource":  "hpet",
	})
	h.OpenFiles = Limit{Soft: 1024, Hard: 1024, Known: true}
	p := plan
	p.Root, p.Blobs = "/srv/nfs/films", "/run/blobs"
	return h, p
}

// What scripts read stays as it is. A change that they would notice shows in the golden file.
func TestJSON(t *testing.T) {
	got, err := json.MarshalIndent(Examine(ailing()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "report.json")
	if *update {
		if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got)+"\n" != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("it is not %s (go test -update writes it anew):\n%s", golden, got)
	}
}

// Nothing is said about a machine that lacks nothing, and the reverse: who has no file sees no mistake in that.
func TestAHealthyMachineIsLeftInPeace(t *testing.T) {
	for _, f := range Examine(newHost(nil), plan).Findings {
		if f.State != OK && f.State != Info || f.Advice != "" || f.Command != "" {
			t.Errorf("%+v", f)
		}
	}
	nothing := &Host{
		Files: fstest.MapFS{}, OS: "linux", CPUs: 1, Procs: 1, PageSize: 4096, MemoryLimit: 1<<63 - 1,
		Env: func(string) string { return "" },
	}
	forbidding := *nothing
	forbidding.Files = forbidden{}
	other := *nothing
	other.OS = "plan9"
	for name, h := range map[string]*Host{"empty": nothing, "forbidden": &forbidding, "plan9": &other} {
		r := Examine(h, plan)
		if r.Counts[Bad]+r.Counts[Warn] > 0 || r.Counts[Unknown] < 15 {
			t.Errorf("%s: %v", name, r.Counts)
		}
	}
}

// sound fails if a report is not what its types promise.
func sound(t *testing.T, r Report) {
	t.Helper()
	counts, names, rank := make(map[State]int), make(map[string]bool), 0
	for _, s := range States {
		counts[s] = 0
	}
	for _, f := range r.Findings {
		counts[f.State]++
		if f.State.rank() < rank || names[f.Name] || f.Group == "" || f.Value == "" || f.Why == "" {
			t.Errorf("a finding in the wrong place, twice or empty: %+v", f)
		}
		if (f.State == Bad || f.State == Warn) && f.Advice == "" || f.Command != "" && f.Advice == "" {
			t.Errorf("without advice: %+v", f)
		}
		rank, names[f.Name] = f.State.rank(), true
		for _, text := range []string{f.Value, f.Advice, f.Why, f.Command} {
			if len(text) > mostLine+len("…") || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) ||
				strings.Contains(text, "%!") {
				t.Errorf("not a line of text: %q", text)
			}
		}
	}
	if !maps.Equal(counts, r.Counts) || len(names) != len(checks) {
		t.Errorf("%d findings, counted as %v, are %v", len(names), r.Counts, counts)
	}
}

func TestThisMachine(t *testing.T) {
	for _, p := range []Plan{plan, {}, {Viewers: 1 << 24, Root: ".", Blobs: t.TempDir()}, {Root: "/no/such", Blobs: "doc.go"}} {
		r := Examine(Observe(), p)
		sound(t, r)
		if r.CPUs < 1 || runtime.GOOS == "linux" && (r.Kernel == "" || r.Memory == 0) {
			t.Errorf("%+v", r)
		}
	}
}

// The package looks, and does nothing else: what could start a program or reach a network is not imported, and of packages
// os and debug only what looks is used.
func TestNothingIsChanged(t *testing.T) {
	imports := regexp.MustCompile(`(?m)^\s*(?:import )?"(os/exec|syscall|net|net/.*|io/ioutil)"$`)
	calls := regexp.MustCompile(`\b(?:os|debug|unix)\.[A-Z]\w*(?:\(-1\))?`)
	look := []string{
		"os.DirFS", "os.Getenv", "os.Getpagesize", "os.Stat", "debug.SetMemoryLimit(-1)",
		"unix.Access", "unix.EACCES", "unix.EPERM", "unix.Getrlimit", "unix.RLIMIT_NOFILE", "unix.R_OK", "unix.W_OK", "unix.X_OK", "unix.Rlimit", "unix.Sysctl", "unix.SysctlUint32", "unix.SysctlUint64",
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if m := imports.Find(text); m != nil {
			t.Errorf("%s imports %s", name, m)
		}
		for _, call := range calls.FindAllString(string(text), -1) {
			if !slices.Contains(look, call) {
				t.Errorf("%s uses %s", name, call)
			}
		}
	}
}

// Whatever is in a file, nothing panics, and what comes out is text.
func FuzzExamine(f *testing.F) {
	names := slices.Sorted(maps.Keys(healthy))
	for i, name := range names {
		f.Add(i, healthy[name], 1000, "/srv/films")
	}
	for _, all := range []map[string][]situation{
		processSituations, memorySituations, networkSituations, diskSituations, systemSituations,
	} {
		for _, list := range all {
			for _, s := range list {
				for name, content := range s.files {
					f.Add(max(slices.Index(names, name), 0), content, 1000, "/srv")
				}
			}
		}
	}
	f.Add(0, "18446744073709551615 18446744073709551615 18446744073709551615", 1<<24, `/a\040b`)
	f.Add(3, "0::/a/../../b\x1b[31m\n4:memory:\n", 1, "/\xff\x1b[0m")
	f.Fuzz(func(t *testing.T, i int, content string, viewers int, dir string) {
		// What the files say may have a %! of its own; in the report that is to be a mistake of ours.
		content, dir = strings.ReplaceAll(content, "!", "?"), strings.ReplaceAll(dir, "!", "?")
		p := plan
		p.Viewers = 1 + int(uint(viewers)%(1<<24))
		p.Root, p.Blobs = dir, dir
		h := newHost(files{names[int(uint(i)%uint(len(names)))]: content})
		sound(t, Examine(h, p))
		// The same in every file.
		for name := range h.Files.(fstest.MapFS) {
			h.Files.(fstest.MapFS)[name] = &fstest.MapFile{Data: []byte(content)}
		}
		sound(t, Examine(h, p))
	})
}
