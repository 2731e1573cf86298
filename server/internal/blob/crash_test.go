package blob

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/server/internal/testkit/disktest"
)

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

// If the disk is full after a value got its name, Put reports ErrUnsure, because the key has the new
// value.
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
