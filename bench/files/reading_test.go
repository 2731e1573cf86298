package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// onDisk is a directory that is not on tmpfs.
func onDisk(t *testing.T) string {
	for _, dir := range []string{t.TempDir(), "."} {
		if _, err := Disk(dir); err == nil {
			return dir
		} else if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
	}
	t.Skip("no directory on a disk")
	return ""
}

// TestViewsAgree has every view give the bytes that are in the file.
func TestViewsAgree(t *testing.T) {
	const size, block = 1 << 20, 64 << 10
	name := filepath.Join(onDisk(t), "views.bin")
	defer os.Remove(name)
	if err := makeFile(name, size); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := ways
	for _, p := range paths {
		all = append(all, way{name: p.name, open: p.open})
	}
	for _, w := range all {
		v, err := w.open(f, size, block)
		if err != nil {
			t.Fatalf("%s: %v", w.name, err)
		}
		for off := int64(0); off < 2*size; off += block { // and once more from the start
			at := off % size
			if sum, err := v.look(at); err != nil || sum != glance(want[at:at+block]) {
				t.Errorf("%s: another block at %d, %v", w.name, at, err)
			}
		}
		if err := v.close(); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
}

func TestChill(t *testing.T) {
	const size = 4 << 20
	name := filepath.Join(onDisk(t), "chill.bin")
	defer os.Remove(name)
	if err := makeFile(name, size); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := heat(f, size); err != nil {
		t.Fatal(err)
	}
	if n := resident(f, size); n != size && n != -1 {
		t.Errorf("%d bytes in the page cache, want all %d", n, size)
	}
	if err := chill(f, size); err != nil {
		t.Fatal(err)
	}
}

func TestDiskIsNoMemory(t *testing.T) {
	const shm = "/dev/shm"
	if _, err := os.Stat(shm); err != nil {
		t.Skip(err)
	}
	if what, err := Disk(shm); err == nil {
		t.Errorf("%s is said to be on %s", shm, what)
	}
}

func TestPatterns(t *testing.T) {
	p := Patterns{Dir: onDisk(t), Sizes: []int64{1 << 20}, Blocks: []int{4 << 10, 64 << 10}, Rounds: 2,
		Turn: 5 * time.Millisecond, Log: t.Logf}
	results, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 8 {
		t.Fatalf("%d patterns, want 8", len(results))
	}
	for _, r := range results {
		for i, s := range r.PerWay {
			want := 2
			if !ways[i].does(r.Pattern) {
				want = 0
			}
			if len(s) != want || want > 0 && s.Min() <= 0 {
				t.Errorf("%+v, %s: %v", r.Pattern, ways[i].name, s)
			}
		}
	}
	var out strings.Builder
	p.Write(&out, results)
	if n := strings.Count(out.String(), "| 1 MiB"); n != 8 {
		t.Errorf("%d rows, want 8:\n%s", n, &out)
	}
}

func TestPaths(t *testing.T) {
	p := Paths{Dir: onDisk(t), Size: 1 << 20, Block: 4 << 10, Threads: 16, Rounds: 1,
		Turn: 10 * time.Millisecond, Log: t.Logf}
	results, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * len(paths); len(results) != want {
		t.Fatalf("%d results, want %d", len(results), want)
	}
	for _, r := range results {
		if r.Micros.Min() <= 0 || r.Bytes.Min() <= 0 {
			t.Errorf("%+v", r)
		}
	}
	var out strings.Builder
	p.Write(&out, results)
	if n := strings.Count(out.String(), "\n| read"); n != 6 {
		t.Errorf("%d rows of read, want 6:\n%s", n, &out)
	}
}
