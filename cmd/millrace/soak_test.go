package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/redistest"
	"github.com/millrace-io/millrace/internal/soak"
	"github.com/spf13/pflag"
)

// The servers are this test's binary, which is the command. Twelve seconds have restarts in them, and as much more as it
// takes for each server to be judged.
func TestSoak(t *testing.T) {
	t.Setenv(asCommand, "1")
	name := filepath.Join(t.TempDir(), "soak.json")
	if err := os.WriteFile(name, bytes.Repeat([]byte("before "), 100_000), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	err := millrace(t.Context(), &out, &errs, "soak", "--for", "12s", "--json", name, "--viewers", "4", "--rate", "2000000")
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, &errs, &out)
	}
	for _, says := range []string{"verdict", "nothing has drifted", "server directory", "collections an hour", "quiet points"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("no %q in\n%s", says, &out)
		}
	}
	if lines := strings.Count(errs.String(), "\n"); lines == 0 || !strings.Contains(errs.String(), "cycle 1: ") {
		t.Errorf("progress:\n%s", &errs)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var report soak.Report
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	d := report.Done
	if report.Cycles == 0 || strings.Count(errs.String(), "cycle ") != report.Cycles || d.Checked == 0 || d.Streams == 0 ||
		report.Verdict != soak.Passed || len(report.Reasons)+len(report.Unjudged) > 0 {
		t.Errorf("%+v", report)
	}
}

// A Redis that is somebody's has its keys back when the run is over. Three seconds are too short for more than that, which the
// exit status says.
func TestSoakOnRedis(t *testing.T) {
	r := redistest.Start(t, redistest.Password("secret"))
	t.Setenv(asCommand, "1")
	t.Setenv(redisPasswordVar, "secret")
	r.Do(t, "SET", "theirs", "value")
	var out, errs bytes.Buffer
	err := millrace(t.Context(), &out, &errs, "soak", "--for", "3s", "--viewers", "1", "--streams", "1",
		"--redis", "redis://"+r.Addr(), "-q")
	if err == nil || exitStatus(err) != 2 || errs.Len() > 0 ||
		!strings.Contains(err.Error(), "server redis: too short to judge drift: ") ||
		!strings.Contains(out.String(), "server redis") || !strings.Contains(out.String(), "NOT JUDGED") {
		t.Fatalf("%v\n%s\n%s", err, &errs, &out)
	}
	// What was deleted stays under other names, for downloads that are under way.
	for _, pattern := range []string{"*/?}", "*/??}"} {
		if left := r.Do(t, "KEYS", pattern).([]any); len(left) > 0 {
			t.Errorf("keys are left: %v", left)
		}
	}
	if got := r.Do(t, "GET", "theirs"); got != "value" {
		t.Errorf("their own key: %v", got)
	}
}

// A script learns from the exit status what came of it, and a person from the last lines.
func TestSoakVerdicts(t *testing.T) {
	for _, test := range []struct {
		report soak.Report
		status int // 0: there is no error
		says   string
		prints string
	}{
		{soak.Report{Verdict: soak.Passed}, 0, "", "verdict  nothing has drifted, no byte was wrong\n"},
		{soak.Report{Verdict: soak.Failed, Reasons: []string{"a", "b"}, Unjudged: []string{"c"}}, 1,
			"the soak has failed:\n  a\n  b", "verdict  FAILED\n"},
		{soak.Report{Verdict: soak.Unjudged, Unjudged: []string{"c", "d"}}, 2,
			"the soak has not judged everything:\n  c\n  d", "verdict  NOT JUDGED, though no byte was wrong\n         c\n         d\n"},
	} {
		err := soakFailure(test.report)
		if (err == nil) != (test.status == 0) || err != nil && (exitStatus(err) != test.status || err.Error() != test.says) {
			t.Errorf("%s: %v", test.report.Verdict, err)
		}
		var out bytes.Buffer
		if err := printSoak(&out, test.report); err != nil || !strings.HasSuffix(out.String(), test.prints) {
			t.Errorf("%s: %v\n%s", test.report.Verdict, err, &out)
		}
	}
	var out bytes.Buffer
	lives := [][]soak.Point{make([]soak.Point, 1), make([]soak.Point, 9)}
	report := soak.Report{Servers: []soak.ServerReport{{Name: "x", Lives: lives, Judged: []int{0, 7}}}}
	if err := printSoak(&out, report); err != nil || !strings.Contains(out.String(), "10, in 2 processes; drift was judged by 7 of them") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// The user's page tells of every flag with its default.
func TestTheSoakPageTellsOfEveryFlag(t *testing.T) {
	doc, err := os.ReadFile("../../docs/soak.md")
	if err != nil {
		t.Fatal(err)
	}
	soakCommand().Flags().VisitAll(func(f *pflag.Flag) {
		value := f.DefValue
		if value == "" || value == "false" {
			value = "–"
		}
		if row := "| `--" + f.Name + "` | " + value + " |"; !strings.Contains(string(doc), row) {
			t.Errorf("docs/soak.md has no row that begins %q", row)
		}
	})
}

func TestSoakRefuses(t *testing.T) {
	for args, says := range map[string]string{
		"--for 1s":              "--for",
		"--rate 5":              "--rate",
		"--redis http://x":      "--redis",
		"--for 10s 127.0.0.1:1": "takes no argument",
		"--for ever":            "want a time with its unit",
	} {
		var out, errs bytes.Buffer
		err := millrace(t.Context(), &out, &errs, append([]string{"soak"}, strings.Fields(args)...)...)
		if err == nil || exitStatus(err) != 2 || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// What a run needs at its end, or from others, is looked for before it begins, and what is there stays as it is.
func TestSoakLooksFirst(t *testing.T) {
	dir := t.TempDir()
	before, fresh := filepath.Join(dir, "before.json"), filepath.Join(dir, "fresh.json")
	if err := os.WriteFile(before, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "redis://:secret@" + closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--json", filepath.Join(dir, "nonexistent", "s.json")}, "no such file or directory"},
		{[]string{"--json", dir}, "is a directory"},
		{[]string{"--json", before, "--keep", filepath.Join(before, "kept")}, "--keep: "},
		{[]string{"--json", fresh, "--keep", before}, "--keep: "},
		{[]string{"--json", before, "--redis", nobody}, "--redis does not answer: "},
		{[]string{"--json", fresh, "--redis", nobody}, "--redis does not answer: "},
	} {
		var out, errs bytes.Buffer
		err := millrace(t.Context(), &out, &errs, append([]string{"soak", "--for", "3s"}, test.args...)...)
		if err == nil || exitStatus(err) != 2 || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", test.args, err)
		}
		if out.Len()+errs.Len() > 0 {
			t.Errorf("%q: it ran:\n%s%s", test.args, &errs, &out)
		}
	}
	if text, err := os.ReadFile(before); err != nil || string(text) != "before" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a report of no run: %v", err)
	}
}
