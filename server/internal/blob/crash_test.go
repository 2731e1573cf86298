package blob

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/testkit/disktest"
)

// crashKeys are the keys of a crashRun.
var crashKeys = []string{"k", "k/1", "K", "film.mp4", strings.Repeat("long/", 60) + "1"}

// A change is a Put or a Delete that a store confirmed, or of which it was unsure.
type change struct {
	value   []byte // nil: deleted, or never put
	expires time.Time
	tag     string // "" if the store was unsure
	step    int
	begun   int // number of operations before the change
	ended   int // number of operations when the store returned
	unsure  bool
}

// A crashRun is a store that random operations change.
type crashRun struct {
	t        *testing.T
	disk     *disktest.Disk
	scratch  *disktest.Disk // for crashed states
	store    *directory
	injected error // the error of a call that fails, or nil
	clock    time.Time
	rnd      *rand.Rand
	n        int
	changes  map[string][]change
}

func newCrashRun(t *testing.T, seed int) *crashRun {
	t.Helper()
	return &crashRun{t: t, disk: disktest.New(memoryDir(t)), scratch: disktest.New(memoryDir(t)),
		rnd: disktest.Random(seed, 0, 0), clock: time.Unix(1.8e9, 0),
		changes: make(map[string][]change)}
}

// memoryDir returns a directory in memory, if there is one.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "millrace")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// openDisk opens the store of a Disk without its sweeper.
func openDisk(d *disktest.Disk, clock func() time.Time) (*directory, error) {
	root, err := d.Open("")
	if err != nil {
		return nil, err
	}
	s, err := newDirectory(root, false, millrace.DefaultPool())
	if err != nil {
		return nil, err
	}
	s.stopSweeper()
	<-s.swept
	s.clock = clock
	return s, nil
}

func (r *crashRun) open() (err error) {
	r.store, err = openDisk(r.disk, func() time.Time { return r.clock })
	return err
}

func (r *crashRun) close() {
	if r.store != nil {
		if err := r.store.Close(); err != nil && !errors.Is(err, r.injected) {
			r.t.Error(err)
		}
	}
	r.store = nil
}

// step makes a random change. It returns the error of the store.
func (r *crashRun) step() (err error) {
	key := crashKeys[r.rnd.IntN(len(crashKeys))]
	at := fileOf(key)
	now := change{begun: r.disk.Len(), step: r.n}
	r.n++
	r.clock = r.clock.Add(time.Second)
	switch n := r.rnd.IntN(10); {
	case n < 6:
		value := described(r.rnd.Uint64(), 16+r.rnd.IntN(1<<(4+r.rnd.IntN(13))))
		put := Put{Limit: limit}
		if r.rnd.IntN(4) == 0 {
			put.TTL = time.Duration(1+r.rnd.IntN(20)) * time.Second
			now.expires = r.clock.Add(put.TTL)
		}
		if r.rnd.IntN(4) == 0 {
			put.Only = func(tag string) bool { return tag == "" }
		}
		var body io.Reader = bytes.NewReader(value)
		if broken := r.rnd.IntN(8) == 0; broken {
			body = io.LimitReader(body, int64(len(value)/2))
		}
		now.value = value
		now.tag, _, err = r.store.Put(r.t.Context(), key, body, int64(len(value)), put)
	case n < 8:
		err = r.store.Delete(r.t.Context(), key, nil)
	case n < 9:
		r.store.sweepShard(r.t.Context(), at.shard)
		return nil
	default:
		r.close()
		return r.open()
	}
	switch {
	case errors.Is(err, ErrUnsure):
		now.unsure = true
	case err != nil:
		return err
	}
	now.ended = r.disk.Len()
	r.changes[key] = append(r.changes[key], now)
	return err
}

// allowed returns the changes after which key may be after a crash, when the disk had n operations.
func (r *crashRun) allowed(key string, n int) (all []change) {
	all = []change{{}} // the key never existed
	for _, v := range r.changes[key] {
		switch {
		case v.begun >= n:
			return all
		case v.ended <= n && !v.unsure:
			all = []change{v}
		default:
			all = append(all, v)
		}
	}
	return all
}

// check opens the store of a crashed disk, and checks each key.
func (r *crashRun) check(d *disktest.Disk, n int) error {
	opened := d.Opened()
	s, err := openDisk(d, func() time.Time { return r.clock })
	if err != nil {
		return err
	}
	files := 0
	for _, key := range crashKeys {
		there, err := r.checkKey(s, key, n)
		if err != nil {
			return errors.Join(err, s.Close())
		}
		if there {
			files++
		}
	}
	if names := d.Names(); len(names) != files+2 {
		err = fmt.Errorf("files %q, want two locks and %d values", names, files)
	}
	if err = errors.Join(err, s.Close()); err == nil && d.Opened() != opened {
		err = fmt.Errorf("%d files are open, were %d", d.Opened(), opened)
	}
	return err
}

// checkKey reports whether key has a file.
func (r *crashRun) checkKey(s *directory, key string, n int) (bool, error) {
	info, err := s.root.Lstat(fileOf(key).path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	there := err == nil
	var got []byte
	var tag string
	v, err := s.Open(r.t.Context(), key)
	if err == nil {
		got, err = io.ReadAll(v.Content)
		tag = v.Tag
		err = errors.Join(err, v.Close())
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return there, err
	}
	for _, v := range r.allowed(key, n) {
		expired := !v.expires.IsZero() && !r.clock.Before(v.expires.Add(-2*time.Millisecond))
		switch {
		case (v.value == nil || expired) && got == nil,
			v.value != nil && !expired && bytes.Equal(v.value, got) &&
				(v.tag == "" || v.tag == tag) && (info.Mode() == expiring) == !v.expires.IsZero():
			return there, nil
		}
	}
	return there, fmt.Errorf("%.20s has %d bytes, %s, want one of %v", key, len(got), tag,
		sizesOf(r.allowed(key, n)))
}

func sizesOf(all []change) (sizes []string) {
	for _, v := range all {
		sizes = append(sizes, fmt.Sprint("step ", v.step, ": ", len(v.value), " ", v.tag))
	}
	return sizes
}

// crashed checks the state after n operations and a crash. rnd is nil after a crash of the process.
// crashed also cuts the repair of the state.
func (r *crashRun) crashed(s *disktest.State, n int, rnd *rand.Rand) (err error) {
	d, err := s.Restore(r.scratch)
	if err != nil {
		return err
	}
	r.scratch = d
	began := d.Len()
	if err := r.check(d, n); err != nil {
		return err
	}
	repaired := d.Len()
	if rnd == nil || rnd.IntN(4) > 0 {
		return nil
	}
	if err := r.check(d, n); err != nil {
		return fmt.Errorf("opened again: %w", err)
	}
	cut := began + rnd.IntN(repaired-began+1)
	if d, err = d.Crash(cut, 512, rnd).Restore(d); err != nil {
		return err
	}
	r.scratch = d
	if err := r.check(d, n); err != nil {
		return fmt.Errorf("after a crash of the repair, after %d operations: %w", cut, err)
	}
	return nil
}

// If the disk is full after a value got its name, Put reports ErrUnsure, because the key has the
// new value.
func TestDiskFullAfterRename(t *testing.T) {
	disk := disktest.New(memoryDir(t))
	d, err := openDisk(disk, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, d)
	for k := 0; ; k++ {
		before := disk.Calls()
		disk.Fail(k, 1, syscall.ENOSPC, false)
		_, _, err := d.Put(t.Context(), "k", strings.NewReader("value"), 5, Put{Limit: limit})
		if disk.Calls() <= before+k {
			break
		}
		v, absent := d.Open(t.Context(), "k")
		if absent == nil {
			_ = v.Close()
			if err != nil && !errors.Is(err, ErrUnsure) {
				t.Errorf("call %d fails: the value is there, Put says %v", k, err)
			}
			if err := d.Delete(t.Context(), "k", nil); err != nil {
				t.Error(err)
			}
		} else if err != ErrFull {
			t.Errorf("call %d fails: Put says %v, want ErrFull", k, err)
		}
	}
	disk.Fail(0, 0, nil, false)
}

// After a crash during the first start, the next start works.
func TestCrashDuringFirstStart(t *testing.T) {
	disk, crashed := disktest.New(memoryDir(t)), disktest.New(memoryDir(t))
	d, err := openDisk(disk, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, d)
	for i := range 20 {
		rnd := disktest.Random(i, 0, 0)
		s := disk.Crash(rnd.IntN(disk.Len()), 512, rnd)
		if crashed, err = s.Restore(crashed); err != nil {
			t.Fatal(err)
		}
		d, err := openDisk(crashed, time.Now)
		if err != nil {
			t.Fatalf("%v, after a crash that has left\n%s", err, s)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A crash at any moment leaves each key its confirmed value or the one that was being put, whole.
// This includes file systems that have lost or reordered everything that was not synced.
func TestCrashLeavesConfirmedValues(t *testing.T) {
	runs, variants, stride := 20, 20, 1
	if !disktest.Full() {
		runs, variants, stride = 2, 4, 5
	}
	var prefixes, states, distinct atomic.Int64
	t.Run("runs", func(t *testing.T) {
		for seed := range runs {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				r := newCrashRun(t, seed)
				if err := r.open(); err != nil {
					t.Fatal(err)
				}
				from := r.disk.Len() // the first start is the same in all runs
				if seed == 0 {
					from = 0
				}
				for range 40 {
					_ = r.step()
				}
				r.close()
				if n := r.disk.Opened(); n != 0 {
					t.Errorf("%d files are open", n)
				}
				for n := from + seed%stride; n <= r.disk.Len(); n += stride {
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
	t.Logf("%d runs, %d prefixes, %d states, %d of them distinct", runs, prefixes.Load(),
		states.Load(), distinct.Load())
}

// crashAt checks states after n operations: one after a crash of the process, and several after a
// crash of the machine.
func (r *crashRun) crashAt(seed, n, variants int) (tried, checked int) {
	seen := make(map[[sha256.Size]byte]bool)
	for variant := range variants + 1 {
		var rnd *rand.Rand
		if variant > 0 {
			rnd = disktest.Random(seed, n, variant)
		}
		s := r.disk.Crash(n, []int{512, 4096}[variant%2], rnd)
		tried++
		sum := s.Sum()
		if seen[sum] {
			continue
		}
		seen[sum] = true
		checked++
		if err := r.crashed(s, n, rnd); err != nil {
			r.t.Errorf("%d of %d operations, variant %d: %v\n%s", n, r.disk.Len(), variant, err, s)
		}
	}
	return tried, checked
}

// If any call fails, no confirmed value is lost, and the store works afterwards, also after a
// crash.
func TestFailingCallsLoseNothing(t *testing.T) {
	runs, stride := 2, 1
	if !disktest.Full() {
		stride = 20
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
	r := newCrashRun(t, seed)
	defer os.RemoveAll(r.disk.Dir())
	defer os.RemoveAll(r.scratch.Dir())
	defer func() {
		if t.Failed() {
			t.Fatalf("call %d fails, short: %v", k, short)
		}
	}()
	if seed > 0 { // the first start is the same in all runs
		if err := r.open(); err != nil {
			t.Fatal(err)
		}
	}
	first := r.disk.Calls()
	r.injected = why
	r.disk.Fail(k, 1, why, short)
	for range 15 {
		r.failingStep(why)
	}
	if r.disk.Calls() <= first+k {
		r.close()
		return false
	}
	if r.store == nil {
		if err := r.open(); err != nil {
			t.Fatal(err)
		}
	}
	mustPut(t, r.store, crashKeys[0], []byte("it works"))
	r.changes[crashKeys[0]] = append(r.changes[crashKeys[0]],
		change{value: []byte("it works"), ended: r.disk.Len()})
	r.close()
	if n := r.disk.Opened(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	n := r.disk.Len()
	if err := r.crashed(r.disk.Crash(n, 512, disktest.Random(seed, n, k)), n, nil); err != nil {
		t.Error(err)
	}
	return true
}

// failingStep makes a random change, and checks all keys if an error was injected.
func (r *crashRun) failingStep(why error) {
	r.t.Helper()
	var err error
	if r.store == nil {
		err = r.open()
	} else {
		err = r.step()
	}
	switch {
	case err == nil, errors.Is(err, ErrCondition), errors.Is(err, ErrNotFound),
		errors.Is(err, ErrBody):
		return
	case errors.Is(err, why), errors.Is(err, ErrFull) && why == syscall.ENOSPC:
	default:
		r.t.Errorf("%v, want %v", err, why)
	}
	if r.store == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(r.changes)) {
		if _, err := r.checkKey(r.store, key, r.disk.Len()); err != nil {
			r.t.Errorf("after %v: %v", why, err)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(r.disk.Dir(), incoming, "*")); len(names) > 0 {
		r.t.Errorf("after %v: %q is left", why, names)
	}
}
