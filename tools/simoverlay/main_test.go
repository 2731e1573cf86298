package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
)

// The edits fit the runtime of this Go version, and the result compiles.
func TestRuntimeCompiles(t *testing.T) {
	dir := t.TempDir()
	switch err := write(dir); {
	case errors.Is(err, errDownloaded):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"),
		"runtime").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
