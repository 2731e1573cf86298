//go:build unix

package record

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
)

// alone checks that another process cannot open the directory.
func (r *rig) alone() {
	r.t.Helper()
	if a, err := Open(Config{Dir: r.dir}); err == nil ||
		err.Error() != r.dir+": another process records to this directory" {
		r.t.Errorf("another process: %v", err)
		if err == nil {
			_ = a.Close(r.t.Context())
		}
	}
}

// successor opens the archive as a process does that replaces r's process.
func (r *rig) successor() *rig {
	r.t.Helper()
	return newRig(r.t, func(c *Config) {
		c.Dir, c.Successor, c.QueueBytes = r.dir, true, r.cfg.QueueBytes
	})
}

func (r *rig) isReady() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// A successor does not touch the files of the previous process, and queues frames. When that
// process has ended, the successor writes its own files after the others, and nothing is lost.
func TestSuccessor(t *testing.T) {
	old := newRig(t, nil)
	first := old.stream("cam")
	want := old.feed.to(first, 150)
	old.settle()
	next := old.successor()
	second := next.stream("cam")
	more := next.feed.to(second, 150)
	want = append(want, old.feed.to(first, 150)...)
	old.settle()
	old.alone()
	if st := next.Stats(); next.isReady() || st.Queued == 0 || st.Written != 0 || st.Files != 0 ||
		len(next.files("cam")) != 1 {
		t.Errorf("while the first process has the directory: ready %v, %+v, files %q",
			next.isReady(), st, next.files("cam"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := next.Await(ctx); !errors.Is(err, errLocked) {
		t.Errorf("Await = %v, want errLocked", err)
	}
	old.close()
	if err := next.Await(t.Context()); err != nil {
		t.Error(err)
	}
	more = append(more, next.feed.to(second, 150)...)
	next.settle()
	next.alone()
	next.close()
	files := next.files("cam")
	if len(files) != 2 {
		t.Fatal(files)
	}
	for i, want := range [][]fragment{want, more} {
		got, _ := check(t, files[i], true)
		sameFragments(t, got, want)
	}
	if st := next.Stats(); st.Files != 2 || st.Bytes != sizes(t, next.dir) ||
		st.Lost+st.Failures != 0 || st.Repaired != 0 {
		t.Errorf("%+v, %d bytes, want two files, counted, without a loss or a repair", st,
			sizes(t, next.dir))
	}
}

// If the previous process is stuck, a successor loses the frames that do not fit into the queue,
// counts them, and continues at a keyframe when it gets the directory.
func TestSuccessorOfAStuckProcess(t *testing.T) {
	old := newRig(t, func(c *Config) { c.QueueBytes = 1 << 20 })
	next := old.successor()
	rec := next.stream("cam")
	for next.Stats().Lost == 0 {
		next.feed.to(rec, 100)
	}
	if st := next.Stats(); st.Queued > 1<<20 {
		t.Errorf("%d bytes wait", st.Queued)
	}
	old.close()
	nettest.Eventually(t, "the queue to be written",
		func() bool { return next.Stats().Queued == 0 })
	next.feed.to(rec, 300)
	next.close()
	files := next.files("cam")
	if len(files) != 1 {
		t.Fatal(files)
	}
	_, p := check(t, files[0], true)
	gaps := 0
	for _, e := range p.entries {
		if e.discontinuity {
			gaps++
		}
	}
	if gaps != 1 {
		t.Errorf("%d gaps in %+v", gaps, p.entries)
	}
}

// A successor that ends before its predecessor waits for it up to a time limit, and touches
// nothing.
func TestSuccessorEndsFirst(t *testing.T) {
	old := newRig(t, nil)
	want := old.feed.to(old.stream("cam"), 100)
	idle := old.successor()
	idle.close()
	next := old.successor()
	next.feed.to(next.stream("cam"), 100)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := next.Archive.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close = %v, want context.DeadlineExceeded", err)
	}
	next.ended()
	if st := next.Stats(); st.Lost != 100 || st.Written != 0 || st.Queued != 0 {
		t.Errorf("%+v, want the queue of 100 lost and nothing written", st)
	}
	old.close()
	next.close()
	sameFragments(t, old.checkAll("cam"), want)
}

// A successor without a predecessor has the directory at once. A successor that waits for long logs
// it.
func TestSuccessorSaysThatItWaits(t *testing.T) {
	dir := t.TempDir()
	old := newRig(t, func(c *Config) { c.Dir, c.Successor = dir, true })
	if !old.isReady() {
		t.Error("it waits for itself")
	}
	synctest.Test(t, func(t *testing.T) {
		next := newRig(t, func(c *Config) { c.Dir, c.Successor = dir, true })
		time.Sleep(lockLate + time.Second)
		if !strings.Contains(next.log.String(), "recordings still wait for another process") {
			t.Error("it says nothing")
		}
		next.close()
	})
}
