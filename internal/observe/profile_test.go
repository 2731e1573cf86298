package observe

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"testing"
)

func TestProfiles(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "new", "one")
	r, err := Start(Options{Profiles: directory, Kernel: KernelNone})
	if err != nil {
		t.Fatal(err)
	}
	tl, err := r.Stop()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(directory, "cpu.pprof"), filepath.Join(directory, "heap.pprof")}
	if !slices.Equal(tl.Profiles, want) {
		t.Errorf("profiles %q, want %q", tl.Profiles, want)
	}
	for _, name := range want {
		data, err := os.ReadFile(name)
		if gzip := []byte{0x1f, 0x8b}; err != nil || !bytes.HasPrefix(data, gzip) {
			t.Errorf("%s: %v, %.10q", name, err, data)
		}
	}
}

// A process has one CPU profile at a time. Who comes second is told, and leaves nothing behind.
func TestProfilesWhileAnotherRuns(t *testing.T) {
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		t.Fatal(err)
	}
	defer pprof.StopCPUProfile()
	directory := t.TempDir()
	if r, err := Start(Options{Profiles: directory}); err == nil {
		r.Stop()
		t.Fatal("a second CPU profile runs")
	}
	if left, _ := os.ReadDir(directory); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestProfilesWhereNoneCanBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := Start(Options{Profiles: filepath.Join(file, "below")}); err == nil {
		r.Stop()
		t.Fatal("profiles below a file")
	}
}

// A heap profile that can't be written costs neither the timeline nor the other profile.
func TestStopWithoutTheHeapProfile(t *testing.T) {
	directory := t.TempDir()
	if err := os.Mkdir(filepath.Join(directory, "heap.pprof"), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := Start(Options{Profiles: directory, Kernel: KernelNone})
	if err != nil {
		t.Fatal(err)
	}
	tl, err := r.Stop()
	if err == nil || len(tl.Samples) == 0 || len(tl.Profiles) != 1 {
		t.Errorf("%v, %+v", err, tl)
	}
}
