package record

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/media/flv"
	"github.com/millrace-io/millrace/media/mp4"
	"github.com/millrace-io/millrace/server/internal/disk"
	"github.com/millrace-io/millrace/server/internal/testkit/disktest"
)

// A crashRun is an archive to which random streams are recorded.
type crashRun struct {
	*rig
	disk    *disktest.Disk
	scratch *disktest.Disk // for crashed states
	limit   int64          // Config.MaxBytes
	rnd     *rand.Rand
	clock   *testClock
	streams map[string]*crashStream
	moments []moment
	added   int // fragments

	written map[string][]byte // see Disk.Written; set when the run has ended
}

// A crashStream is a stream that is being recorded.
type crashStream struct {
	recording *Recording
	feed      *feed
}

// A moment is a time at which the archive has written everything.
type moment struct {
	operations int
	ended      []string // paths of the ended recordings, without extensions
	written    bool     // everything was on the disk: see Disk.Writeback
}

var crashStreams = []string{"cam", "acme/cam", "radio"}

func (r *crashRun) config() Config {
	return Config{Dir: r.dir, Every: 20 * time.Second, MaxBytes: r.limit, now: r.clock.now,
		open: r.disk.Open, Log: slog.New(slog.NewTextHandler(r.log, nil))}
}

func newCrashRun(t *testing.T, seed int, limit int64) *crashRun {
	t.Helper()
	dir := memoryDir(t)
	return &crashRun{rig: &rig{t: t, dir: dir, log: &nettest.LogBook{}}, disk: disktest.New(dir),
		scratch: disktest.New(memoryDir(t)), limit: limit, rnd: disktest.Random(seed, 0, 0),
		clock:   newClock("2026-11-24T15:00:00Z"),
		streams: make(map[string]*crashStream)}
}

func (r *crashRun) open() (err error) {
	r.Archive, err = Open(r.config())
	return err
}

// shut closes the archive.
func (r *crashRun) shut() {
	for name := range r.streams {
		r.end(name)
	}
	if r.Archive != nil {
		_ = r.Archive.Close(r.t.Context())
	}
	r.Archive = nil
	r.written = r.disk.Written()
}

func (r *crashRun) end(name string) {
	s := r.streams[name]
	s.recording.Close()
	s.feed.release()
	delete(r.streams, name)
	r.settleAll()
}

// settleAll waits until everything is written and each closed recording has ended.
func (r *crashRun) settleAll() {
	r.settle()
	nettest.Eventually(r.t, "closed recordings end",
		func() bool { return r.Stats().Recordings == len(r.streams) })
}

// step makes a random change. It returns an error if the archive cannot be opened.
func (r *crashRun) step() error {
	if r.Archive == nil {
		return r.open()
	}
	name := crashStreams[r.rnd.IntN(len(crashStreams))]
	s := r.streams[name]
	written := false
	switch n := r.rnd.IntN(20); {
	case n < 13:
		if s == nil {
			s = &crashStream{r.stream(name), newFeed()}
			s.feed.slides = true
			if name == "radio" {
				s.feed.only, s.feed.muxer = flv.TypeAudio, mp4.NewMuxer(mp4.Tracks(false, true))
			}
			r.streams[name] = s
		}
		var took time.Duration
		for least := time.Duration(r.rnd.IntN(3000)) * time.Millisecond; took <= least; r.added++ {
			f := s.feed.to(s.recording, 1)[0]
			r.clock.add(f.End - f.Start)
			took += f.End - f.Start
		}
	case n < 15:
		if s != nil {
			r.end(name)
		}
	case n < 16:
		r.clock.add(time.Duration(r.rnd.IntN(60)-10) * time.Second)
	case n < 17:
		r.shut()
		if err := r.open(); err != nil {
			return err
		}
	default:
		written = true
	}
	r.settleAll()
	if written {
		r.disk.Writeback()
	}
	m := moment{operations: r.disk.Note(), written: written}
	r.store.mu.Lock()
	for _, k := range r.store.files {
		m.ended = append(m.ended, k.name())
	}
	r.store.mu.Unlock()
	r.moments = append(r.moments, m)
	return nil
}

// promised returns how many bytes of each media file a crash after n operations must leave.
func (r *crashRun) promised(n int, machine bool) map[string]int {
	least := make(map[string]int)
	add := func(s *disktest.State) {
		for name := range r.written {
			if filepath.Ext(name) == mediaExt {
				least[name] = max(least[name], len(s.File(name)))
			}
		}
	}
	there := r.disk.Crash(n, 1, nil)
	if !machine {
		add(there)
		return least
	}
	var last, next moment
	for i, m := range r.moments {
		if m.operations > n {
			break
		}
		if last, next = m, m; i+1 < len(r.moments) {
			next = r.moments[i+1]
		}
		if m.written {
			add(r.disk.Crash(m.operations, 1, nil))
		}
	}
	for _, name := range last.ended {
		least[name+mediaExt] = len(there.File(name + mediaExt))
	}
	for name := range least { // it may have been deleted since
		if stem := strings.TrimSuffix(name, mediaExt); there.File(name) == nil ||
			slices.Contains(last.ended, stem) && !slices.Contains(next.ended, stem) {
			delete(least, name)
		}
	}
	return least
}

// check opens a crashed disk, and checks that each recording can be played, has the bytes that were
// promised, and none that were not written. It returns the number of repaired recordings.
func (r *crashRun) check(t testing.TB, d *disktest.Disk, least map[string]int) int {
	t.Helper()
	c := r.config()
	c.open, c.Dir, c.MaxBytes = d.Open, d.Dir(), 0
	a, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	stats := a.Stats()
	if err := a.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if n := d.Opened(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	written := r.written
	for _, name := range d.Names() {
		stem := strings.TrimSuffix(name, mediaExt)
		if stem == name {
			if stem = strings.TrimSuffix(name, listExt); name != lockName && (stem == name ||
				!slices.Contains(d.Names(), stem+mediaExt)) {
				t.Errorf("%s is left", name)
			}
			continue
		}
		check(t, filepath.Join(d.Dir(), stem), false)
		media, err := os.ReadFile(filepath.Join(d.Dir(), name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(written[name], media) {
			at := 0
			for at < len(written[name]) && media[at] == written[name][at] {
				at++
			}
			t.Errorf("%s differs at byte %d of %d", name, at, len(media))
		}
		if fragments := wholeFragments(t, written[name], least[name]); len(media) < fragments {
			t.Errorf("%s has %d bytes, want %d, of %d promised", name, len(media), fragments,
				least[name])
		}
		delete(least, name)
	}
	for name, n := range least {
		if wholeFragments(t, written[name], n) > 0 {
			t.Errorf("%s, of which %d bytes were promised, is lost", name, n)
		}
	}
	if n := sizes(t, d.Dir()); stats.Bytes != n {
		t.Errorf("%d bytes are counted, there are %d", stats.Bytes, n)
	}
	return stats.Repaired
}

// wholeFragments returns the end of the last fragment that is completely in the first n bytes of a
// media file, or 0 if there is none.
func wholeFragments(t testing.TB, media []byte, n int) (end int) {
	t.Helper()
	r := reader{file: bytes.NewReader(media), size: int64(len(media))}
	if n == 0 {
		return 0
	}
	at, err := r.readInit()
	if err == errTorn {
		return 0
	} else if err != nil {
		t.Fatal(err)
	}
	for {
		f, ok, err := r.readFragment(at)
		if err != nil {
			t.Fatal(err)
		}
		if at += int64(f.Size); !ok || at > int64(n) {
			return end
		}
		end = int(at)
	}
}

// crashed checks the state after a crash. It also cuts the repair of the state.
func (r *crashRun) crashed(s *disktest.State, promised map[string]int, rnd *rand.Rand) {
	t := r.t
	write := func(s *disktest.State) *disktest.Disk {
		d, err := s.Restore(r.scratch)
		if err != nil {
			t.Fatal(err)
		}
		r.scratch = d
		return d
	}
	d := write(s)
	began := d.Len()
	r.check(t, d, maps.Clone(promised)) // the copy is changed
	repaired := d.Len()
	if rnd == nil || rnd.IntN(4) > 0 {
		return
	}
	before := d.Crash(repaired, 1, nil)
	if n := r.check(t, d, maps.Clone(promised)); n != 0 {
		t.Errorf("%d files were repaired again", n)
	}
	if before.Sum() != d.Crash(d.Len(), 1, nil).Sum() {
		t.Error("a second start has changed files")
	}
	cut := began + rnd.IntN(repaired-began+1)
	defer func() {
		if t.Failed() {
			t.Logf("the repair was cut after %d of %d operations", cut-began, repaired-began)
		}
	}()
	r.check(t, write(d.Crash(cut, 4096, rnd)), maps.Clone(promised))
}

// crashAt checks states after n operations: one after a crash of the process, and several after a
// crash of the machine.
func (r *crashRun) crashAt(seed, n, variants int) (tried, checked int) {
	seen := make(map[[sha256.Size]byte]bool)
	promised := r.promised(n, false)
	for variant := range variants + 1 {
		var rnd *rand.Rand
		if variant > 0 {
			rnd = disktest.Random(seed, n, variant)
		}
		if variant == 1 {
			promised = r.promised(n, true)
		}
		s := r.disk.Crash(n, []int{512, 4096}[variant%2], rnd)
		tried++
		sum := s.Sum()
		if seen[sum] {
			continue
		}
		seen[sum] = true
		checked++
		func() {
			defer func() {
				if r.t.Failed() {
					r.t.Logf("%d of %d operations, variant %d:\n%s", n, r.disk.Len(), variant, s)
				}
			}()
			r.crashed(s, promised, rnd)
		}()
	}
	return tried, checked
}

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
	early := n * 3 / 4
	for ends[early]%512 > 256 { // the fragment begins in the first half of a sector
		early++
	}
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
		{"a page a minute before", size * 3 / 4 / 4096 * 4096, size*3/4/4096*4096 + 4096, true, -1},
		{"a sector", size * 3 / 4 / 512 * 512, size*3/4/512*512 + 512, true, -1},
		{"the end of a sector", ends[early], ends[early]/512*512 + 512, true, -1},
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

// After a crash of the process, each recording has all fragments that were written. After a crash
// of the machine, it has all fragments of ended recordings, and all fragments that the kernel had
// written. It has no damaged fragment. This includes file systems that have lost or reordered
// everything that was not synced.
func TestCrashLeavesWholeFragments(t *testing.T) {
	runs, variants, stride := 20, 20, 1
	if !disktest.Full() {
		runs, variants, stride = 2, 4, 3
	}
	var prefixes, states, distinct, deleted atomic.Int64
	t.Run("runs", func(t *testing.T) {
		for seed := range runs {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				r := newCrashRun(t, seed, 200_000)
				for range 40 {
					if err := r.step(); err != nil {
						t.Fatal(err)
					}
				}
				r.shut()
				if n := r.disk.Opened(); n != 0 {
					t.Errorf("%d files are open", n)
				}
				deleted.Add(int64(strings.Count(r.log.String(), "an old recording was deleted")))
				for n := seed % stride; n <= r.disk.Len(); n += stride {
					tried, checked := r.crashAt(seed, n, variants)
					prefixes.Add(1)
					states.Add(int64(tried))
					distinct.Add(int64(checked))
					if t.Failed() {
						return
					}
				}
			})
		}
	})
	if deleted.Load() == 0 {
		t.Error("no run has deleted an old recording")
	}
	t.Logf("%d runs, %d prefixes, %d states, %d of them distinct; %d recordings were deleted", runs,
		prefixes.Load(), states.Load(), distinct.Load(), deleted.Load())
}

// If any call fails, each recording has all fragments that were written before and after, and
// recording continues when the disk works again. A crash of the machine does not damage recordings
// that have ended.
func TestFailingCallsDamageNothing(t *testing.T) {
	runs, stride := 3, 1
	if !disktest.Full() {
		runs, stride = 1, 20
	}
	var failed atomic.Int64
	t.Run("runs", func(t *testing.T) {
		for seed := range runs {
			for _, why := range []error{syscall.ENOSPC, syscall.EIO} {
				t.Run(fmt.Sprint(seed, why), func(t *testing.T) {
					t.Parallel()
					for k := 0; failCall(t, seed, k, why, stride); k += stride {
						failed.Add(1)
					}
				})
			}
		}
	})
	t.Logf("%d calls failed", failed.Load())
}

// failCall makes call k of a run fail. It returns false if the run has fewer calls.
func failCall(t *testing.T, seed, k int, why error, stride int) bool {
	t.Helper()
	short := (k/stride%2 == 0) == (why == syscall.EIO) // each call is short with one of the errors
	r := newCrashRun(t, seed, 0)
	defer os.RemoveAll(r.dir)
	defer os.RemoveAll(r.scratch.Dir())
	defer func() {
		if t.Failed() {
			t.Fatalf("call %d fails, short: %v\n%s", k, short, r.log)
		}
	}()
	r.disk.Fail(k, []int{1, 1, 30}[k%3], why, short) // for a moment, or for some seconds
	for range 20 {
		if err := r.step(); err != nil && !errors.Is(err, why) {
			t.Errorf("%v, want %v", err, why)
		}
	}
	if r.disk.Calls() <= k {
		r.shut()
		return false
	}
	r.disk.Fail(0, 0, nil, false)
	r.clock.add(retryAfter)
	for r.Archive == nil {
		if err := r.step(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range crashStreams {
		before := r.Stats().Written
		s := r.streams[name]
		if s == nil {
			s = &crashStream{r.stream(name), newFeed()}
			r.streams[name] = s
		}
		s.feed.to(s.recording, 100)
		r.settle()
		if r.Stats().Written == before {
			t.Errorf("%s does not continue", name)
		}
	}
	r.shut()
	if n := r.disk.Opened(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	n := r.disk.Len()
	there := r.disk.Crash(n, 512, nil)
	all, ended := make(map[string]int), make(map[string]int)
	for name, media := range r.written {
		if filepath.Ext(name) != mediaExt {
			continue
		}
		all[name] = len(media)
		list := there.File(strings.TrimSuffix(name, mediaExt) + listExt)
		if bytes.HasSuffix(list, []byte(endLine)) {
			ended[name] = len(there.File(name))
		}
	}
	if len(ended) == 0 {
		t.Error("no recording has ended")
	}
	r.crashed(there, all, nil)
	for i := range 3 {
		rnd := disktest.Random(seed, k, i)
		r.crashed(r.disk.Crash(n, 512, rnd), ended, rnd)
	}
	return true
}
