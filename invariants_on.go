//go:build invariants

package millrace

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// invariants tells the compiler whether to keep the checks that only tests can afford.
const invariants = true

// token identifies one Draft or Ref from its creation until its release.
type token struct{ id uint64 }

// A record is the history of a token.
type record struct {
	pool     *Pool
	bytes    int
	taken    []uintptr
	released []uintptr
}

// records holds every open token and the last closedKept closed ones, so that the panic of a second
// release can show the first.
var records = struct {
	mu     sync.Mutex
	last   uint64
	open   map[uint64]*record
	closed map[uint64]*record
	order  []uint64 // ids in closed, oldest first
}{open: map[uint64]*record{}, closed: map[uint64]*record{}}

const (
	// This is 2 MB of stacks. A soak test of a few seconds does not mistake so little growth for a
	// leak.
	closedKept = 1 << 12
	stackDepth = 24
	poisonByte = 0xDB
)

// open gives the token a new id and records that b was taken. skip is the number of callers to
// leave out of the stack.
func (t *token) open(b *block, skip int) {
	pcs := make([]uintptr, stackDepth)
	pcs = pcs[:runtime.Callers(skip+3, pcs)]
	records.mu.Lock()
	defer records.mu.Unlock()
	records.last++
	t.id = records.last
	records.open[t.id] = &record{pool: b.pool, bytes: len(b.buf), taken: pcs}
}

// close ends the token. Closing it again, through a copy, panics with both stacks.
func (t *token) close() {
	pcs := make([]uintptr, stackDepth)
	pcs = pcs[:runtime.Callers(2, pcs)]
	records.mu.Lock()
	defer records.mu.Unlock()
	l := records.open[t.id]
	if l == nil {
		panic("millrace: released twice" + history(t.id) + "released again at:\n" + stack(pcs))
	}
	l.released = pcs
	delete(records.open, t.id)
	records.closed[t.id] = l
	records.order = append(records.order, t.id)
	if len(records.order) > closedKept {
		delete(records.closed, records.order[0])
		records.order = records.order[1:]
	}
}

// check panics if the token has been closed. The zero token belongs to an empty variable: it was
// never opened, so check accepts it.
func (t *token) check() {
	if t.id == 0 {
		return
	}
	records.mu.Lock()
	defer records.mu.Unlock()
	if records.open[t.id] == nil {
		panic("millrace: use after release" + history(t.id))
	}
}

// released distinguishes a released Chain from one that has always been empty.
type released struct{ at []uintptr } // the stack of the call of Release

// note records the stack of the call of Release.
func (r *released) note() {
	r.at = make([]uintptr, stackDepth)
	r.at = r.at[:runtime.Callers(3, r.at)]
}

// clear forgets the release. It is called when the Chain gets new bytes.
func (r *released) clear() { r.at = nil }

// check panics if the Chain was released and has not been filled since.
func (r *released) check() {
	if r.at != nil {
		panic("millrace: use of a Chain after its Release\nreleased at:\n" + stack(r.at))
	}
}

// history describes where a closed token was taken and released. The caller holds records.mu.
func history(id uint64) string {
	l := records.closed[id]
	if l == nil {
		return fmt.Sprintf(" (released more than %d releases ago)\n", closedKept)
	}
	return "\ntaken at:\n" + stack(l.taken) + "first released at:\n" + stack(l.released)
}

func stack(pcs []uintptr) string {
	var s strings.Builder
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		fmt.Fprintf(&s, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return s.String()
		}
	}
}

// poison overwrites memory that has no reader any more. If a slice is used too late, its garbage
// then shows the mistake at once.
func poison(p []byte) {
	for i := range p {
		p[i] = poisonByte
	}
}

func leaks(p *Pool) []string {
	records.mu.Lock()
	defer records.mu.Unlock()
	var ids []uint64
	for id, l := range records.open {
		if l.pool == p || l.pool.parent == p {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	out := make([]string, len(ids))
	for i, id := range ids {
		l := records.open[id]
		out[i] = fmt.Sprintf("a share of a block of %d bytes, taken at:\n%s", l.bytes,
			stack(l.taken))
	}
	return out
}
