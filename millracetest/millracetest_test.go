package millracetest

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/internal/testkit/leak"
)

func TestMain(m *testing.M) { Main(m) }

// recorder is a test whose cleanups and errors are recorded.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   string
}

func (r *recorder) Helper()           {}
func (r *recorder) Cleanup(f func())  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Error(args ...any) { r.errors += fmt.Sprint(args...) }

// errorsOf returns the errors of a test that has ended. A leak is permanent here, so nothing waits
// for it.
func errorsOf(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	grace := leak.Grace
	leak.Grace = 50 * time.Millisecond
	defer func() { leak.Grace = grace }()
	r := &recorder{TB: t}
	test(r)
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	return r.errors
}

func stacks() bool {
	p := millrace.NewPool()
	d := p.Get(1)
	defer d.Release()
	return len(p.Leaks()) > 0
}

func wantReport(t *testing.T, report string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(report, w) {
			t.Errorf("the report lacks %q:\n%s", w, report)
		}
	}
}

//go:noinline
func forgets(p *millrace.Pool) millrace.Draft { return p.Get(1000) }

func TestNewPoolReportsAnUnreleasedBlock(t *testing.T) {
	var d millrace.Draft
	report := errorsOf(t, func(t testing.TB) { d = forgets(NewPool(t)) })
	d.Release()
	taker := "-tags invariants"
	if stacks() {
		taker = "millracetest.forgets"
	}
	wantReport(t, report, "a Pool has 1024 bytes in use (1 blocks), want 0", taker)
}

func TestNewPoolReportsALostBlock(t *testing.T) {
	if stacks() {
		t.Skip("with -tags invariants, the record of a leak keeps the Pool")
	}
	report := errorsOf(t, func(t testing.TB) {
		p := NewPool(t)
		r := p.NewReader(strings.NewReader("some text"), 16)
		r.ReadByte()
		r = nil
		for p.Stats().Lost == 0 { // the cleanup runs some time after the collection
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	})
	wantReport(t, report, "a Pool has lost 1 blocks that were never released")
}

func TestNewPoolAcceptsReleasedBlocks(t *testing.T) {
	report := errorsOf(t, func(t testing.TB) {
		d := NewPool(t).Get(10)
		t.Cleanup(d.Release)
	})
	if report != "" {
		t.Error(report)
	}
}

// A slice that is kept after the release shows garbage from then on, also after later loans.
func TestNewPoolPoisonsReleasedBlocks(t *testing.T) {
	for _, size := range []int{1, 1000, 1 << 20, 1<<20 + 1} {
		for _, account := range []bool{false, true} {
			p := NewPool(t, millrace.IdleLimit(1<<30))
			if account {
				p = p.Account()
			}
			d := p.Get(size)
			kept := d.Bytes()
			clear(kept)
			d.Release()
			next := p.Get(size)
			clear(next.Bytes())
			if want := bytes.Repeat([]byte{0xDB}, len(kept)); !bytes.Equal(kept, want) {
				t.Errorf("a kept slice of %d bytes begins with %x", size, kept[0])
			}
			next.Release()
		}
	}
}

func TestNoLeaks(t *testing.T) {
	var d millrace.Draft
	stop := make(chan struct{})
	report := errorsOf(t, func(t testing.TB) {
		NoLeaks(t)
		d = millrace.DefaultPool().Get(1000)
		go func() { <-stop }()
	})
	close(stop)
	d.Release()
	wantReport(t, report, "millrace.DefaultPool() has 1024 bytes in use (1 blocks), want 0",
		"a goroutine is still running:\n", "TestNoLeaks")
	// What was there before is no leak.
	d = millrace.DefaultPool().Get(1000)
	other := make(chan struct{})
	go func() { <-other }()
	if report := errorsOf(t, func(t testing.TB) { NoLeaks(t) }); report != "" {
		t.Error(report)
	}
	close(other)
	d.Release()
}

func TestMainChecksItsPools(t *testing.T) {
	for _, test := range []struct {
		code, want int
		held       bool
	}{{0, 0, false}, {0, 1, true}, {2, 2, true}} {
		p := millrace.NewPool()
		var d millrace.Draft
		var w strings.Builder
		var code int
		report := errorsOf(t, func(testing.TB) {
			code = run(func() int {
				if test.held {
					d = p.Get(1)
				}
				return test.code
			}, &w, []*millrace.Pool{p})
		})
		d.Release()
		if code != test.want || report != "" {
			t.Errorf("%+v: exit code %d %s", test, code, report)
		}
		if failed := strings.HasSuffix(w.String(), "millracetest: FAIL\n"); failed != (code == 1) {
			t.Errorf("%+v: output %q", test, w.String())
		}
	}
}
