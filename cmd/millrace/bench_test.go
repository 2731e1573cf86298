package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is asked for is measured, and goes where it is wanted.
func TestBench(t *testing.T) {
	t.Setenv(asCommand, "1") // for the servers
	page := filepath.Join(t.TempDir(), "report.html")
	var out, errs bytes.Buffer
	err := millrace(t.Context(), &out, &errs, "bench", "stackbuf", "--quick", "--rounds", "1", "--json", "-", "--html", page)
	if err != nil {
		t.Fatalf("%v\n%s", err, &errs)
	}
	var report struct {
		Suites []struct{ Name string } `json:"suites"`
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || len(report.Suites) != 1 || report.Suites[0].Name != "stackbuf" {
		t.Errorf("%v in\n%s", err, &out)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "stackbuf.Buffer") {
		t.Errorf("%v in\n%.2000s", err, text)
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"bench", "nothing"},
		{"bench", "stackbuf", "--quick", "--rounds", "0"},
		{"bench", "stackbuf", "--quick", "--html", filepath.Join(t.TempDir(), "none", "report.html")},
		{"bench", "stackbuf", "--quick", "--svg", "/dev/null/pictures"},
	} {
		var out bytes.Buffer
		if err := millrace(t.Context(), &out, &out, args...); err == nil {
			t.Errorf("millrace %s: no error\n%s", strings.Join(args, " "), &out)
		}
	}
}
