//go:build linux

package host

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace/bench/files"
)

// onDisk is a directory that is not on tmpfs.
func onDisk(t *testing.T) string {
	dir := t.TempDir()
	if _, err := files.Disk(dir); err != nil {
		t.Skip(err)
	}
	return dir
}

func TestParseSetting(t *testing.T) {
	if s, err := ParseSetting(" 30/10"); err != nil || s != (Setting{30, 10}) || s.String() != "30/10" {
		t.Errorf("%v, %v", s, err)
	}
	for _, s := range []string{"", "30", "30/", "30/0", "101/10", "10/10", "10/30", "30/10/5", "a/b", "-1/-2"} {
		if p, err := ParseSetting(s); err == nil {
			t.Errorf("%q is read as %v", s, p)
		}
	}
}

func TestPresent(t *testing.T) {
	const memory = 1000 << 20
	k := kernel{"vm.dirty_ratio": "20", "vm.dirty_bytes": "0", "vm.dirty_background_ratio": "0",
		"vm.dirty_background_bytes": "104857600"}
	l, name, err := present(k, memory)
	if err != nil || name != "20/100 MiB" || l != (limits{200 << 20, 100 << 20}) || l.slows() != 150<<20 {
		t.Errorf("%+v, %q, %v", l, name, err)
	}
	k["vm.dirty_bytes"] = "much"
	if _, _, err := present(k, memory); err == nil {
		t.Error("a limit of much")
	}
}

func TestLatency(t *testing.T) {
	var l, m latency
	for i := range 1000 {
		l.add(time.Duration(i+1) * time.Microsecond)
	}
	m.add(time.Second)
	l.merge(&m)
	if l.n != 1001 || l.longest != time.Second || l.stalled != time.Second || l.quantile(1) != time.Second {
		t.Errorf("%d, %v, %v, %v", l.n, l.longest, l.stalled, l.quantile(1))
	}
	for q, want := range map[float64]time.Duration{0.5: 500 * time.Microsecond, 0.99: 990 * time.Microsecond} {
		if got := l.quantile(q); got < want || got > want*17/16 {
			t.Errorf("%v of it: %v, want %v", q, got, want)
		}
	}
	for d := time.Duration(0); d < 1<<62; d += d/7 + 1 {
		if c := class(d); top(c) < d || c > 0 && top(c-1) >= d {
			t.Fatalf("%d is in class %d, from %d to %d", d, c, top(c-1)+1, top(c))
		}
	}
}

func TestCaption(t *testing.T) {
	results := []WritingResult{{limits: limits{400 << 20, 100 << 20}}, {limits: limits{200 << 20, 100 << 20}}}
	p := Writing{Size: 64 << 20, Writers: 2, Rounds: 1, Memory: 512 << 20, Keeper: new(Keeper)}
	for size, free := range map[int64]bool{150 << 20: true, 160 << 20: false} {
		p.Size = size
		if s := p.Caption(results); strings.Contains(s, "nobody is slowed down") != free || !strings.Contains(s, "of 512 MiB") {
			t.Errorf("%d MiB: %s", size>>20, s)
		}
	}
}

func TestField(t *testing.T) {
	b := []byte("nr_written_not 1\nnr_written 22\nMemFree:   33 kB\n")
	if n, err := field(b, "nr_written"); n != 22 || err != nil {
		t.Error(n, err)
	}
	if n, err := field(b, "MemFree:"); n != 33 || err != nil {
		t.Error(n, err)
	}
	if _, err := field(b, "nr_dirty"); err == nil {
		t.Error("what is not there is found")
	}
}

func TestDisk(t *testing.T) {
	const stat = "  100 2 3000 4 500 6 7000 8 0 9 10 11 0 0 0 0 0 0\n"
	if n := written(stat); n != 7000*512 {
		t.Errorf("%v bytes", n)
	}
	for _, s := range []string{"", "1 2 3 4 5 6", "1 2 3 4 5 6 x"} {
		if n := written(s); !math.IsNaN(n) {
			t.Errorf("%q: %v bytes", s, n)
		}
	}
	if n := disk("/no/such/disk").written(); !math.IsNaN(n) {
		t.Errorf("a disk that is not there has written %v bytes", n)
	}
}

// TestOneWriteIsOneDirtyPage keeps the file from being in the page cache in pieces that are dirty as a whole.
func TestOneWriteIsOneDirtyPage(t *testing.T) {
	const size = 4 << 20
	f, err := scratch(t.Context(), onDisk(t), size)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if os.Getpagesize() != block {
		t.Skip("pages of another size")
	}
	if _, err := f.WriteAt(make([]byte, block), 37*block); err != nil {
		t.Fatal(err)
	}
	var in unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Len: size}, &in, 0); err != nil {
		t.Skip(err) // before Linux 6.5
	}
	if n := in.Dirty + in.Writeback; n > 1 {
		t.Errorf("after one write %d pages are dirty", n)
	}
}

// TestOpenCountsEAGAIN has a limit of three queues, and then something else go wrong.
func TestOpenCountsEAGAIN(t *testing.T) {
	var calls int
	var destroyed atomic.Int64
	broken := -1
	setUp := func(n int) (queue, error) {
		calls++
		switch {
		case calls == broken:
			return 0, os.NewSyscallError("io_setup", unix.ENOMEM)
		case calls > 3:
			return 0, os.NewSyscallError("io_setup", unix.EAGAIN)
		}
		return queue(calls), nil
	}
	destroy := func(queue) error { destroyed.Add(1); return nil }
	all, refused, err := open(10, 64, setUp, destroy)
	if !slices.Equal(all, []queue{1, 2, 3}) || refused != 7 || destroyed.Load() != 0 || err != nil {
		t.Errorf("%v, %d refused, %d destroyed, %v", all, refused, destroyed.Load(), err)
	}
	calls, broken = 0, 3
	if all, _, err := open(10, 64, setUp, destroy); all != nil || destroyed.Load() != 2 || !errors.Is(err, unix.ENOMEM) {
		t.Errorf("%v, %d destroyed, %v", all, destroyed.Load(), err)
	}
}

// TestTheKernelRefuses asks for more than there may be at all, which takes nothing from anybody.
func TestTheKernelRefuses(t *testing.T) {
	most, err := number(directory(ProcSys), "fs.aio-max-nr")
	if err != nil {
		t.Skip(err)
	}
	if most > 1<<20 {
		t.Skipf("fs.aio-max-nr is %d, and a queue of that size another error", most)
	}
	queues, refused, err := open(2, int(most)+1, setUp, queue.destroy)
	if errors.Is(err, unix.ENOSYS) {
		t.Skip(err)
	}
	if len(queues) != 0 || refused != 2 || err != nil {
		t.Errorf("%d queues, %d refused, %v", len(queues), refused, err)
	}
}

func TestWriting(t *testing.T) {
	dir := onDisk(t)
	p := Writing{Dir: dir, Size: 2 << 20, Writers: 2, Rounds: 2, Turn: 5 * time.Millisecond, Log: t.Logf}
	results, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 || len(results[0].Writes) != 2 || results[0].Writes.Min() <= 0 || results[0].Longest.Min() <= 0 {
		t.Errorf("%+v", results)
	}
	var out strings.Builder
	p.Write(&out, results)
	if s := out.String(); !strings.Contains(s, "the setting as it is") || strings.Count(s, "\n| ") != 3 {
		t.Errorf("the table:\n%s", s)
	}
	empty(t, dir)
}

func TestAsync(t *testing.T) {
	dir := onDisk(t)
	p := Async{Dir: dir, Size: 1 << 20, Contexts: []int{1, 3}, Requests: 4, Depth: 2, Rounds: 2,
		Turn: 5 * time.Millisecond, Log: t.Logf}
	results, err := p.Run(t.Context())
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		t.Skip(err) // a kernel without it, or a file system without O_DIRECT
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 2 || len(results[1].Writes) != 2 {
		t.Fatalf("%+v", results)
	}
	for _, r := range results {
		if r.Got.Min()+r.Refused.Min() != float64(r.Asked) || r.Refused.Max() == 0 && r.Writes.Min() <= 0 {
			t.Errorf("%+v", r)
		}
	}
	var out strings.Builder
	p.Write(&out, results)
	if n := strings.Count(out.String(), "\n| "); n != 4 {
		t.Errorf("%d lines, want 4:\n%s", n, &out)
	}
	empty(t, dir)
}

// TestInterrupted has both end at once, and leave nothing.
func TestInterrupted(t *testing.T) {
	dir := onDisk(t)
	for _, d := range []time.Duration{0, 50 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		w := Writing{Dir: dir, Size: 2 << 20, Writers: 2, Rounds: 2, Turn: time.Hour, Log: t.Logf}
		if _, err := w.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("writing: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), d)
		defer cancel()
		missing := func(err error) bool { return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) }
		a := Async{Dir: dir, Size: 1 << 20, Contexts: []int{1}, Requests: 4, Depth: 2, Rounds: 2, Turn: time.Hour, Log: t.Logf}
		if _, err := a.Run(ctx); !errors.Is(err, context.DeadlineExceeded) && !missing(err) {
			t.Errorf("async: %v", err)
		}
	}
	empty(t, dir)
}

// empty looks for files that were left, and for descriptors of files that have no name any more.
func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range open {
		if name, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil && strings.HasPrefix(name, dir) {
			t.Errorf("still open: %s", name)
		}
	}
}
