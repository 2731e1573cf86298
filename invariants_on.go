//go:build invariants

package millrace

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
)

const invariants = true

// token identifies one Draft or Ref. Its methods panic on a double release or a use after release.
type token struct{ id uint64 }

// A record holds two stack traces for a Draft or Ref: one from its creation, and one from its
// release.
type record struct {
	pool     *Pool
	bytes    int
	taken    []uintptr
	released []uintptr
}

// records describes all unreleased Drafts and Refs, and the most recently released ones.
var records = struct {
	mu     sync.Mutex
	last   uint64
	open   map[uint64]*record
	closed map[uint64]*record
	order  []uint64 // the keys of closed, oldest first
}{open: map[uint64]*record{}, closed: map[uint64]*record{}}

const (
	// maxClosed is the maximum number of records of released Drafts and Refs, about 2 MB.
	maxClosed  = 1 << 12
	stackDepth = 24
)

// open records the creation of a Draft or Ref in block b, and sets t.id. The record has the stack
// of the creation, without open, the caller of open, and skip further callers.
func (t *token) open(b *block, skip int) {
	pcs := make([]uintptr, stackDepth)
	pcs = pcs[:runtime.Callers(skip+3, pcs)]
	records.mu.Lock()
	defer records.mu.Unlock()
	records.last++
	t.id = records.last
	records.open[t.id] = &record{pool: b.pool, bytes: len(b.buf), taken: pcs}
}

// close marks the token's Draft or Ref as released. If the Draft or Ref was already released, the
// method panics with the stacks of both releases.
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
	if len(records.order) > maxClosed {
		delete(records.closed, records.order[0])
		records.order = records.order[1:]
	}
}

// check panics if the token's Draft or Ref has been released. It accepts the zero token, which
// belongs to an empty Draft or Ref.
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

type released struct{ at []uintptr } // stack of the call to Release

func (r *released) note() {
	r.at = make([]uintptr, stackDepth)
	r.at = r.at[:runtime.Callers(3, r.at)]
}

// clear is called when a Chain gets new bytes.
func (r *released) clear() { r.at = nil }

func (r *released) check() {
	if r.at != nil {
		panic("millrace: use of a Chain after its Release\nreleased at:\n" + stack(r.at))
	}
}

// history returns the stack traces of the creation and the release of a Draft or Ref, for a panic
// message. The caller must hold records.mu.
func history(id uint64) string {
	l := records.closed[id]
	if l == nil {
		return fmt.Sprintf(" (released more than %d releases ago)\n", maxClosed)
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

func poison(p []byte) { fill(p) }

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
