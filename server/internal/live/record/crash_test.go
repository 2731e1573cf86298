package record

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace-io/millrace/server/internal/disk"
	"github.com/millrace-io/millrace/server/internal/testkit/disktest"
)

// After a crash of the machine, an ended recording has its name and all of its bytes.
func TestEndedRecordingIsOnDisk(t *testing.T) {
	d := disktest.New(memoryDir(t))
	r := newRig(t, func(c *Config) { c.Dir, c.open = d.Dir(), d.Open })
	rec := r.stream("acme/cam")
	r.feed.to(rec, 60)
	rec.Close()
	r.ended()
	whole := d.Crash(d.Len(), 512, nil)
	for i := range 50 {
		s := d.Crash(d.Len(), 512, disktest.Random(i, 0, 0))
		for _, name := range d.Names() {
			if !bytes.Equal(s.File(name), whole.File(name)) {
				t.Fatalf("%d bytes of %s are left, want %d", len(s.File(name)), name,
					len(whole.File(name)))
			}
		}
	}
}

// A recording ends before the first sector that was not written, even if the playlist lists later
// segments.
func TestHoles(t *testing.T) {
	clock := newClock("2026-11-24T15:00:00Z")
	r := newRig(t, func(c *Config) { c.now = clock.now })
	r.feed.slides = true
	var want []fragment
	rec := r.stream("cam")
	for clock.now().Before(time.Date(2026, 11, 24, 15, 4, 0, 0, time.UTC)) {
		f := r.feed.to(rec, 1)[0]
		clock.add(f.End - f.Start)
		if len(want) > 0 || f.Key {
			want = append(want, f)
		}
	}
	rec.Close()
	r.ended()
	name := r.files("cam")[0]
	media, err := os.ReadFile(name + mediaExt)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(name + listExt)
	if err != nil {
		t.Fatal(err)
	}
	_, p := check(t, name, true)
	grown := bytes.TrimSuffix(list, []byte(endLine))
	ends := []int{int(p.init)} // ends of the fragments
	for _, f := range want {
		ends = append(ends, ends[len(ends)-1]+f.Size)
	}
	n, size := len(ends), len(media)
	root, err := disk.Open(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, tt := range []struct {
		name       string
		start, end int  // of the hole
		list       bool // the playlist is there
		left       int  // fragments; -1: those before the hole
	}{
		{"a page near the end", size/4096*4096 - 4096, size / 4096 * 4096, true, -1},
		{"a page a minute earlier", size * 3 / 4 / 4096 * 4096, size*3/4/4096*4096 + 4096, true, -1},
		{"a sector", size * 3 / 4 / 512 * 512, size*3/4/512*512 + 512, true, -1},
		{"the end of a sector", ends[n-50], (ends[n-50] + 511) / 512 * 512, true, -1},
		{"the end of the file", (size - 1) / 512 * 512, size, true, -1},
		{"a sector, without a playlist", size / 4 / 512 * 512, size/4/512*512 + 512, false, -1},
		{"the first fragment", ends[0], (ends[0] + 511) / 512 * 512, false, 0},
		{"the init segment", 512, 1024, false, 0},
		{"the first sector", 0, 512, false, 0},
		{"the file", 0, size, false, 0},
		// The kernel wrote it long before the crash. It is not read again.
		{"long ago", size / 4 / 512 * 512, size/4/512*512 + 512, true, n - 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			torn := bytes.Clone(media)
			clear(torn[tt.start:tt.end])
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name+mediaExt, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(name + listExt)
			if tt.list {
				if err := os.WriteFile(name+listExt, grown, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			left := tt.left
			for left < 0 || tt.left < 0 && ends[left+1] <= tt.start {
				left++
			}
			if _, err := finish(root, "cam/"+filepath.Base(name)); err != nil {
				t.Fatal(err)
			}
			if left == 0 {
				if files := r.files("cam"); len(files) > 0 {
					t.Errorf("%q is left", files)
				}
				return
			}
			got, err := os.ReadFile(name + mediaExt)
			if err != nil || !bytes.Equal(got, torn[:ends[left]]) {
				t.Errorf("%d bytes, %v, want %d, of %d", len(got), err, ends[left], size)
			}
			if tt.left < 0 {
				check(t, name, true)
			}
		})
	}
}

// Open deletes the new playlist of an ended recording. A crash of the machine may leave the file
// under both names.
func TestPlaylistUnderBothNames(t *testing.T) {
	r := newRig(t, nil)
	rec := r.stream("cam")
	want := r.feed.to(rec, 60)
	rec.Close()
	r.close()
	name := r.files("cam")[0]
	if err := os.Link(name+listExt, name+newListExt); err != nil {
		t.Fatal(err)
	}
	a, err := Open(Config{Dir: r.dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if st := a.Stats(); st.Files != 1 || st.Repaired != 0 || st.Bytes != sizes(t, r.dir) {
		t.Errorf("%+v, want one file without a repair, and the bytes counted", st)
	}
	sameFragments(t, r.checkAll("cam"), want) // fails if a new playlist is left
}
