// Package leak finds goroutines and pooled blocks that tests have left over.
package leak

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-io/millrace"
)

// Grace is how long goroutines may take to end and release their blocks. The tests wait that long
// only if there is a leak.
var Grace = 10 * time.Second

// Settled calls f until f returns "" or Grace has passed. It returns the last result.
func Settled(f func() string) string {
	deadline := time.Now().Add(Grace)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		leaks := f()
		if leaks == "" || !time.Now().Before(deadline) {
			return leaks
		}
		time.Sleep(pause)
	}
}

// A Snapshot describes the goroutines and the memory of Pools at one time. The zero Snapshot is
// empty.
type Snapshot struct {
	goroutines map[string]string
	pools      map[*millrace.Pool]millrace.PoolStats
}

// Take returns a Snapshot of the running goroutines and the memory of pools.
func Take(pools ...*millrace.Pool) Snapshot {
	s := Snapshot{Goroutines(), map[*millrace.Pool]millrace.PoolStats{}}
	for _, p := range pools {
		s.pools[p] = p.Stats()
	}
	return s
}

// Since describes the goroutines that were started after the Snapshot s and still run. For each
// Pool in pools, it also describes how the Pool's memory differs from the memory in s. If there is
// nothing to describe, Since returns "".
func Since(s Snapshot, pools ...*millrace.Pool) string {
	var b strings.Builder
	for _, p := range pools {
		b.WriteString(Outstanding(p, s.pools[p]))
	}
	for number, stack := range Goroutines() {
		if _, ok := s.goroutines[number]; !ok {
			fmt.Fprintf(&b, "leak: a goroutine is still running:\n%s\n\n", stack)
		}
	}
	return b.String()
}

// Outstanding compares InUse and Lost in p.Stats() with want. It returns a description of the
// difference, or "" if there is none.
func Outstanding(p *millrace.Pool, want millrace.PoolStats) string {
	s := p.Stats()
	if s.InUse == want.InUse && s.Lost == want.Lost {
		return ""
	}
	var b strings.Builder
	name := "a Pool"
	if p == millrace.DefaultPool() {
		name = "millrace.DefaultPool()"
	}
	blocks := ""
	if s.InUseBlocks > 0 { // an account does not count its blocks
		blocks = fmt.Sprintf(" (%d blocks)", s.InUseBlocks)
	}
	fmt.Fprintf(&b, "leak: %s has %d bytes in use%s, want %d\n", name, s.InUse, blocks, want.InUse)
	if s.Lost != want.Lost {
		fmt.Fprintf(&b, "leak: %s has lost %d blocks that were never released\n", name,
			s.Lost-want.Lost)
	}
	leaks := p.Leaks()
	for _, leak := range leaks {
		fmt.Fprintf(&b, "leak: not released: %s\n", leak)
	}
	if len(leaks) == 0 {
		b.WriteString("leak: run the tests again with -tags invariants to see who took them\n")
	}
	return b.String()
}
