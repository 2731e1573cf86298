package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/doctor"
	"github.com/spf13/pflag"
)

// The exit status tells scripts whether the machine lacks something or doctor failed to examine it.
func TestDoctorExitStatus(t *testing.T) {
	for _, test := range []struct {
		args   string
		status int
		says   string // expected on standard error
	}{
		{"doctor --root no-such-directory", 1, "bad"},
		{"doctor --root no-such-directory --strict --json", 1, "bad"},
		{"doctor --viewers 0", 2, "--viewers is 0, want from 1"},
		{"doctor --viewers 99999999", 2, "--viewers is 99999999"},
		{"doctor --viewers many", 2, "many"},
		{"doctor --what", 2, "--what"},
		{"doctor please", 2, "takes no argument"},
		{"dance", 2, "unknown command"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(test.args)...)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		err := cmd.Run()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != test.status || !strings.Contains(errs.String(), test.says) {
			t.Errorf("millrace %s: %v, want status %d:\n%s", test.args, err, test.status, &errs)
		}
	}
	for _, test := range []struct {
		bad, warn    int
		says, strict string
	}{{0, 0, "", ""}, {0, 2, "", "0 bad, 2 warn"}, {3, 2, "3 bad, 2 warn", "3 bad, 2 warn"}} {
		r := doctor.Report{Counts: map[doctor.State]int{doctor.Bad: test.bad,
			doctor.Warn: test.warn}}
		for strict, want := range map[bool]string{false: test.says, true: test.strict} {
			switch err := verdict(r, strict); {
			case want == "":
				if err != nil {
					t.Errorf("%+v, strict %t: %v, want success", test, strict, err)
				}
			case err == nil || !strings.HasSuffix(err.Error(), ": "+want) || exitStatus(err) != 1:
				t.Errorf("%+v, strict %t: %v, want %q and status 1", test, strict, err, want)
			}
		}
	}
}

// doctored runs doctor on this machine. Findings are not errors.
func doctored(t *testing.T, args ...string) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	err := execute(t.Context(), &out, io.Discard, append([]string{"doctor"}, args...)...)
	if err != nil && exitStatus(err) != 1 {
		t.Fatal(err)
	}
	return &out
}

// Doctor measures a server that it starts itself, and stops it.
func TestDoctorMeasures(t *testing.T) {
	trial := capacityTrial
	trial.Viewers, trial.Time = 5, 200*time.Millisecond
	var server *exec.Cmd
	trial.Server = func(args ...string) *exec.Cmd {
		server = ownServer(args...)
		server.Env = append(server.Env, asCommand+"=1")
		return server
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs the CPU time of another process, from /proc")
	}
	c, err := doctor.Measure(t.Context(), trial)
	if err != nil {
		t.Fatal(err)
	}
	if server.ProcessState == nil {
		t.Error("the server still runs")
	}
	c.CPUs = 2
	c.Bounds = []doctor.Bound{{Latency: 50 * time.Millisecond, Viewers: 9000}}
	var out bytes.Buffer
	if err := printFindings(&out, doctor.Report{Capacity: &c}, false, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"keep 2 CPUs busy", "50ms", "9000", "19.4 Gbit/s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	var r doctor.Report
	d := json.NewDecoder(doctored(t, "--json", "--viewers", "77", "--root", dir, "--blobs", dir))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.Schema != 2 || r.Viewers != 77 || r.Root != dir || r.Blobs != dir || len(r.Findings) < 10 {
		t.Errorf("%+v, want the report of the given plan", r)
	}
	short, all := doctored(t, "--root", dir).String(), doctored(t, "--root", dir, "--all").String()
	for _, f := range r.Findings {
		if !strings.Contains(short, "  "+f.Name+"  ") {
			t.Errorf("no %s in:\n%s", f.Name, short)
		}
	}
	if len(all) <= len(short) || strings.Contains(all, "\x1b") ||
		!strings.Contains(short, "\nfor 1000 viewers: ") {
		t.Errorf("the short report is %s\n--all is not longer:\n%s", short, all)
	}
}

func TestFindingsArePrinted(t *testing.T) {
	r := doctor.Report{
		Viewers: 5, Counts: map[doctor.State]int{doctor.Bad: 1, doctor.OK: 1},
		Findings: []doctor.Finding{
			{Group: "process", Name: "open files", State: doctor.Bad, Value: "1024",
				Advice: "allow more",
				Why:    "Viewers need descriptors.", Command: "ulimit -n 4096"},
			{Group: "memory", Name: "memory", State: doctor.OK, Value: "1 GiB",
				Why: "It is enough."},
		},
	}
	const want = `bad  process   open files  1024
     advice:   allow more
     why:      Viewers need descriptors.
     command:  ulimit -n 4096
ok   memory    memory  1 GiB

for 5 viewers: 1 bad, 1 ok
`
	var out bytes.Buffer
	if err := printFindings(&out, r, false, false); err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant:\n%s", err, &out, want)
	}
	out.Reset()
	if err := printFindings(&out, r, false, true); err != nil ||
		!strings.Contains(out.String(), "It is enough.") {
		t.Errorf("%v, want a report that says that it is enough\n%s", err, &out)
	}
}

// The documentation lists every check and flag of doctor, and no other flag.
func TestDoctorPageListsEveryCheck(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var r doctor.Report
	if err := json.Unmarshal(doctored(t, "--json").Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, f := range r.Findings {
		names[f.Name] = true
	}
	doctorCommand().Flags().VisitAll(func(f *pflag.Flag) { names["--"+f.Name] = true })
	for name := range names {
		if !strings.Contains(string(doc), "\n| `"+name+"` |") {
			t.Errorf("docs/doctor.md has no row for %s", name)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(string(doc),
		-1) {
		if !names[m[1]] {
			t.Errorf("docs/doctor.md tells of %s, which there is not", m[1])
		}
	}
}
