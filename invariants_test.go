//go:build invariants

package millrace_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/millrace-io/millrace"
)

// takeIt and cloneIt are there to be found in stacks.
func takeIt(p *millrace.Pool) millrace.Ref { return freeze(p, []byte("text")) }
func cloneIt(r *millrace.Ref) millrace.Ref { return r.Clone() }

func TestReleasedMemoryIsPoisoned(t *testing.T) {
	pool := millrace.NewPool()
	r := takeIt(pool)
	s := r.Slice(1, 3)
	b := r.Bytes()
	r.Release()
	if string(b) != "text" {
		t.Errorf("the memory reads %q while there is a share", b)
	}
	s.Release()
	if !bytes.Equal(b, bytes.Repeat([]byte{0xDB}, 4)) {
		t.Errorf("released memory reads %q", b)
	}
}

// What ReadRange lent and what was peeked is spoiled as soon as it is over.
func TestLentMemoryIsPoisoned(t *testing.T) {
	r := millrace.NewReader(strings.NewReader("some text that is longer than that"))
	defer r.Release()
	var lent []byte
	if err := r.ReadRange(9, func(p []byte) { lent = p }); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(lent, bytes.Repeat([]byte{0xDB}, 9)) {
		t.Errorf("what was lent reads %q afterwards", lent)
	}
	peeked, _ := r.Peek(5)
	if string(peeked) != " that" {
		t.Errorf("the bytes behind it read %q", peeked)
	}
	r.Skip(100)
	if string(peeked) == " that" {
		t.Error("what was peeked still reads well after the next read")
	}
}

func TestLeaksNamesTheTaker(t *testing.T) {
	pool, other := millrace.NewPool(), millrace.NewPool()
	d := other.Get(10)
	if leaks := pool.Leaks(); len(leaks) != 0 {
		t.Errorf("leaks before anything was taken: %v", leaks)
	}
	r := takeIt(pool)
	s := cloneIt(&r)
	leaks := pool.Leaks()
	if len(leaks) != 2 || leaks[0].Bytes != 512 ||
		!strings.Contains(leaks[0].Stack, "millrace_test.takeIt") || !strings.Contains(leaks[1].Stack, "millrace_test.cloneIt") {
		t.Errorf("leaks: %v", leaks)
	}
	var c millrace.Chain
	c.Append(&r)
	c.Append(&s)
	if leaks := pool.Leaks(); len(leaks) != 2 {
		t.Errorf("leaks of a Chain of two: %v", leaks)
	}
	c.Release()
	if leaks := pool.Leaks(); len(leaks) != 0 {
		t.Errorf("leaks after everything was released: %v", leaks)
	}
	d.Release()
}

// A Reader counts as the taker of the block that it holds.
func TestLeaksNamesTheReader(t *testing.T) {
	pool := millrace.NewPool()
	r := pool.NewReader(strings.NewReader("text"), 4096)
	r.ReadByte()
	leaks := pool.Leaks()
	if len(leaks) != 1 || !strings.Contains(leaks[0].Stack, "millrace_test.TestLeaksNamesTheReader") {
		t.Errorf("leaks: %v", leaks)
	}
	r.Release()
	if leaks := pool.Leaks(); len(leaks) != 0 {
		t.Errorf("leaks after Release: %v", leaks)
	}
}
