package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
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

// What is asked for wrongly, or cannot be done, leaves the files of an earlier run as they are, and none of its own.
func TestBenchKeepsReports(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old.json")
	fresh := filepath.Join(t.TempDir(), "fresh.html")
	if err := os.WriteFile(old, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"bench", "stackbuf", "--rounds", "0", "--json", old, "--html", fresh},
		{"bench", "stackbuf", "--json", old, "--html", filepath.Join(fresh, "none")},
		{"bench", "stackbuf", "--json", old, "--html", fresh, "--profiles", filepath.Join(old, "none")},
	} {
		var out bytes.Buffer
		if err := millrace(t.Context(), &out, &out, args...); err == nil {
			t.Errorf("%q: no error", args)
		}
		if b, err := os.ReadFile(old); err != nil || string(b) != "precious" {
			t.Errorf("%q: %q, %v", args, b, err)
		}
		if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %s: %v", args, fresh, err)
		}
	}
}
