package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/redistest"
	"github.com/millrace-io/millrace/internal/soak"
	"github.com/spf13/pflag"
)

// The servers are this test's binary, which is the command. Ten seconds have restarts in them, and a life that is long enough
// to be judged, unless the machine is very busy.
func TestSoak(t *testing.T) {
	t.Setenv(asCommand, "1")
	name := filepath.Join(t.TempDir(), "soak.json")
	var out, errs bytes.Buffer
	err := millrace(t.Context(), &out, &errs, "soak", "--for", "10s", "--json", name, "--viewers", "4", "--rate", "2000000")
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, &errs, &out)
	}
	for _, says := range []string{"verdict", "nothing has drifted", "server directory", "collections an hour"} {
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
	if report.Cycles == 0 || strings.Count(errs.String(), "cycle ") != report.Cycles || d.Checked == 0 || d.Streams == 0 || len(report.Reasons) > 0 {
		t.Errorf("%+v", report)
	}
}

// A Redis that is somebody's has its keys back when the run is over.
func TestSoakOnRedis(t *testing.T) {
	r := redistest.Start(t)
	t.Setenv(asCommand, "1")
	r.Do(t, "SET", "theirs", "value")
	var out, errs bytes.Buffer
	err := millrace(t.Context(), &out, &errs, "soak", "--for", "3s", "--viewers", "1", "--streams", "1", "--redis", "redis://"+r.Addr())
	if err != nil || !strings.Contains(out.String(), "server redis") {
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

// The user's page tells of every flag with its default.
func TestTheSoakPageTellsOfEveryFlag(t *testing.T) {
	doc, err := os.ReadFile("../../docs/soak.md")
	if err != nil {
		t.Fatal(err)
	}
	soakCommand().Flags().VisitAll(func(f *pflag.Flag) {
		value := f.DefValue
		if value == "" {
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
	} {
		var out, errs bytes.Buffer
		err := millrace(t.Context(), &out, &errs, append([]string{"soak"}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
