package ownership

import (
	"cmp"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// bits is a set of possible states of an owner, or of a slice that an owner has lent.
type bits uint16

const (
	empty    bits = 1 << iota // nothing to release
	owned                     // must be released or handed on
	pending                   // depends on the outcome of a call; see state.decider
	released                  // must not be used
	taken                     // empty, because a call took ownership
	sent                      // a copy was sent on a channel
	copied                    // a copy is in another variable
	unknown                   // nothing is reported
	valid                     // a slice that may be used
	stale                     // a slice that must not be used
)

type state struct {
	bits     bits
	decider  ssa.Value // if pending: the error or boolean that decides
	choice   int       // if pending and by is a select statement: the case that sends
	onError  bits      // if pending: the bits after an error or false
	onOK     bits      // if pending: the bits after a nil error or true
	acquired token.Pos // the call that gave the memory
	ended    token.Pos // the call that released or took the memory
	link     loc       // the owner of a slice, or the original of a copy
	peeked   bool      // the slice is valid only until the next read
	skipped  bool      // the next peek makes the slice stale

	deferred     bool // a deferred call may release the owner
	deferRelease bool // a deferred call releases the owner
	shared       bool // another goroutine uses the owner
	sharedAt     token.Pos
}

// states has no entry for an owner in the unknown state, unless the owner is shared.
type states map[loc]state

type flow struct {
	*checker
	fn        *ssa.Function
	in        map[*ssa.BasicBlock]states
	ended     map[loc]bool // owners that some call may release or take
	live      map[ssa.Value]map[*ssa.BasicBlock]bool
	reporting bool
	derived   map[ssa.Value][]ssa.Value // the lent slices that may contain a value
	lent      map[ssa.Value]lent
	field     loc       // see usedAfterRead
	staleLoad token.Pos // a load of a stale slice from the field
}

func newFlow(c *checker, fn *ssa.Function) *flow {
	a := &flow{
		checker: c, fn: fn,
		live:    map[ssa.Value]map[*ssa.BasicBlock]bool{},
		ended:   map[loc]bool{},
		derived: map[ssa.Value][]ssa.Value{},
		lent:    map[ssa.Value]lent{},
	}
	for call := range instructions[*ssa.Call](fn) {
		for _, l := range c.lentBy(call) {
			a.lent[l.v] = l
			a.derive(l.v, l.v)
		}
	}
	return a
}

func (a *flow) derive(v, from ssa.Value) {
	if slices.Contains(a.derived[v], from) {
		return
	}
	a.derived[v] = append(a.derived[v], from)
	for _, r := range referrers(v) {
		for _, p := range a.parts(r, v) {
			a.derive(p, from)
		}
	}
}

// solve computes the states at the start of each block.
func (a *flow) solve(entry states) {
	a.in = map[*ssa.BasicBlock]states{a.fn.Blocks[0]: entry}
	if entry == nil {
		a.in[a.fn.Blocks[0]] = states{}
	}
	work := []*ssa.BasicBlock{a.fn.Blocks[0]}
	visits := map[*ssa.BasicBlock]int{}
	for len(work) > 0 {
		b := work[0]
		work = work[1:]
		if visits[b]++; visits[b] > 50 {
			continue
		}
		out := a.out(b)
		for k, next := range b.Succs {
			if impossible(b, k) {
				continue
			}
			s := a.edge(b, k, maps.Clone(out))
			old, seen := a.in[next]
			if seen {
				s = join(old, s)
			}
			if !seen || !maps.Equal(old, s) {
				a.in[next] = s
				if !slices.Contains(work, next) {
					work = append(work, next)
				}
			}
		}
	}
}

func join(x, y states) states {
	out := states{}
	for l, p := range x {
		q, ok := y[l]
		if !ok {
			q = state{bits: unknown}
		}
		out[l] = joinState(p, q)
	}
	for l, q := range y {
		if _, ok := x[l]; !ok {
			out[l] = joinState(q, state{bits: unknown})
		}
	}
	maps.DeleteFunc(out, func(_ loc, s state) bool { return s.bits&unknown != 0 && !s.shared })
	return out
}

func joinState(p, q state) state {
	out := p
	out.bits |= q.bits
	if q.bits&pending != 0 {
		if p.bits&pending != 0 && p.decider != q.decider {
			out.bits |= unknown
		}
		out.decider, out.onError, out.onOK = q.decider, p.onError|q.onError, p.onOK|q.onOK
		if p.bits&pending == 0 {
			out.onError, out.onOK = q.onError, q.onOK
		}
	}
	out.acquired = max(p.acquired, q.acquired)
	out.ended = max(p.ended, q.ended)
	out.sharedAt = max(p.sharedAt, q.sharedAt)
	if p.link != q.link {
		out.link = loc{}
	}
	out.deferred = p.deferred || q.deferred
	out.deferRelease = p.deferRelease && q.deferRelease
	out.shared = p.shared || q.shared
	out.skipped = p.skipped && q.skipped
	return out
}

func (a *flow) out(b *ssa.BasicBlock) states {
	s := maps.Clone(a.in[b])
	for _, i := range b.Instrs {
		a.transfer(s, i)
	}
	return s
}

func (a *flow) report() {
	a.reporting = true
	for _, b := range a.fn.Blocks {
		if a.in[b] == nil {
			continue
		}
		out := a.out(b)
		for k := range b.Succs {
			if !impossible(b, k) {
				a.edge(b, k, maps.Clone(out))
			}
		}
	}
	a.reporting = false
}

// impossible reports whether a constant condition rules out the step from b to successor number k.
func impossible(b *ssa.BasicBlock, k int) bool {
	branch, ok := b.Instrs[len(b.Instrs)-1].(*ssa.If)
	if !ok {
		return false
	}
	cond, ok := branch.Cond.(*ssa.BinOp)
	if !ok {
		return false
	}
	x, ok1 := cond.X.(*ssa.Const)
	y, ok2 := cond.Y.(*ssa.Const)
	if !ok1 || !ok2 || x.Value == nil || y.Value == nil {
		return false
	}
	return constant.Compare(x.Value, cond.Op, y.Value) != (k == 0)
}

// edge returns the states after block b if the execution continues at successor number k.
func (a *flow) edge(b *ssa.BasicBlock, k int, s states) states {
	next := b.Succs[k]
	branch, isIf := b.Instrs[len(b.Instrs)-1].(*ssa.If)
	for l, st := range s {
		if isIf {
			st = a.decide(l, st, branch.Cond, k == 0)
		}
		s[l] = st
		if l.definedIn() != nil && st.bits&pending == 0 && !a.liveAt(l.root, next) {
			if !panics(next) {
				a.reportLeak(l, st, firstPos(next, b))
			}
			delete(s, l)
		}
	}
	return s
}

// panics reports whether block b ends with a panic, a failed test or a call that never returns.
func panics(b *ssa.BasicBlock) bool {
	for _, i := range b.Instrs {
		if call, ok := i.(*ssa.Call); ok {
			if f, _ := callee(&call.Call); failsTest(f) {
				return true
			}
		}
	}
	_, returns := b.Instrs[len(b.Instrs)-1].(*ssa.Return)
	return len(b.Succs) == 0 && !returns
}

// firstPos returns the position to report for a path that enters block b from its predecessor.
func firstPos(b, before *ssa.BasicBlock) token.Pos {
	if r, ok := b.Instrs[len(b.Instrs)-1].(*ssa.Return); ok && r.Pos().IsValid() {
		return r.Pos()
	}
	instrs := slices.Concat(b.Instrs, before.Instrs)
	if b.Dominates(before) { // continue, or the end of a loop
		instrs = slices.Concat(cmp.Or(before.Idom(), before).Instrs, before.Instrs)
		slices.Reverse(instrs)
	}
	for _, i := range instrs {
		if i.Pos().IsValid() {
			return i.Pos()
		}
	}
	return token.NoPos
}

// liveAt reports whether block b or a later block may use v, before v is computed again.
func (a *flow) liveAt(v ssa.Value, b *ssa.BasicBlock) bool {
	live, ok := a.live[v]
	if !ok {
		live = map[*ssa.BasicBlock]bool{}
		a.live[v] = live
		def := loc{root: v}.definedIn()
		var mark func(b *ssa.BasicBlock)
		mark = func(b *ssa.BasicBlock) {
			if b != def && !live[b] {
				live[b] = true
				for _, p := range b.Preds {
					mark(p)
				}
			}
		}
		for part, from := range a.derived {
			if !slices.Contains(from, v) {
				continue
			}
			for _, r := range referrers(part) {
				if r.Parent() == a.fn {
					mark(r.Block())
				}
			}
		}
		for _, r := range referrers(v) {
			mark(r.Block())
		}
	}
	return live[b]
}

// decide returns the state of l if the condition cond has the value yes.
func (a *flow) decide(l loc, st state, cond ssa.Value, yes bool) state {
	if st.bits&pending != 0 {
		v, ok, known := outcome(cond, yes)
		if choice, of, isChoice := selected(cond); isChoice {
			v, ok, known = of, yes && choice == st.choice, yes || choice == st.choice
		}
		switch {
		case v == st.decider && known && ok:
			st.bits = st.bits&^pending | st.onOK
		case v == st.decider && known:
			st.bits = st.bits&^pending | st.onError
		case v == st.decider:
		case isVariable(v):
			st.bits = unknown
		}
		return st
	}
	if zero, ok := emptyTest(l, cond, yes); ok && zero {
		st.bits = empty
		return st
	}
	if st.bits&owned != 0 && countsResult(cond, st.acquired) {
		st.bits = unknown // perhaps Take has appended no frames
		return st
	}
	// The condition may tell whether an earlier branch, which released l, was executed.
	if st.bits&owned != 0 && st.bits != owned && a.ended[l] {
		st.bits |= unknown
	}
	return st
}

// outcome returns the error or boolean v that cond tests. The parameter yes is the value of cond.
// If this value determines v, known is true. Then ok is true if v is a nil error or a true boolean.
func outcome(cond ssa.Value, yes bool) (v ssa.Value, ok, known bool) {
	switch c := cond.(type) {
	case *ssa.UnOp:
		if c.Op == token.NOT {
			return outcome(c.X, !yes)
		}
	case *ssa.BinOp:
		if c.Op != token.EQL && c.Op != token.NEQ || !isError(c.X.Type()) {
			break
		}
		equal := yes == (c.Op == token.EQL)
		x, y := c.X, c.Y
		if isNil(x) {
			x, y = y, x
		}
		if isNil(y) {
			return storedValue(x), equal, true
		}
		return storedValue(x), false, equal // equal to an error such as io.EOF
	case *ssa.Call:
		for _, arg := range c.Call.Args {
			if isError(arg.Type()) { // errors.Is and the like
				return storedValue(arg), false, yes
			}
		}
	}
	return cond, yes, true
}

// selected reports whether cond tests which case a select statement has chosen.
func selected(cond ssa.Value) (choice int, of ssa.Value, ok bool) {
	b, ok := cond.(*ssa.BinOp)
	if !ok || b.Op != token.EQL {
		return 0, nil, false
	}
	e, ok1 := b.X.(*ssa.Extract)
	c, ok2 := b.Y.(*ssa.Const)
	if !ok1 || !ok2 || e.Index != 0 || c.Value == nil {
		return 0, nil, false
	}
	s, ok := e.Tuple.(*ssa.Select)
	return int(c.Int64()), s, ok
}

func isNil(v ssa.Value) bool {
	c, ok := v.(*ssa.Const)
	return ok && c.IsNil()
}

// isVariable reports whether v may have been assigned in several places.
func isVariable(v ssa.Value) bool {
	switch v := v.(type) {
	case *ssa.Phi, *ssa.Parameter, *ssa.FreeVar:
		return true
	case *ssa.UnOp:
		return v.Op == token.MUL
	}
	return false
}

// emptyTest returns ok if cond compares the length of l with 0. The parameter yes is the value of
// cond. The result zero says whether this value means a length of 0.
func emptyTest(l loc, cond ssa.Value, yes bool) (zero, ok bool) {
	b, isBin := cond.(*ssa.BinOp)
	if !isBin {
		return false, false
	}
	call, isCall := b.X.(*ssa.Call)
	n, isConst := b.Y.(*ssa.Const)
	if !isCall || !isConst || n.Value == nil || n.Value.Kind() != constant.Int || n.Int64() != 0 {
		return false, false
	}
	f, _ := callee(&call.Call)
	if f == nil || len(call.Call.Args) != 1 || locate(call.Call.Args[0]) != l ||
		f.Name() != "Len" && f.Name() != "Pieces" {
		return false, false
	}
	switch b.Op {
	case token.EQL, token.LEQ:
		return yes, true
	case token.NEQ, token.GTR:
		return !yes, true
	}
	return false, false
}

// countsResult reports whether cond tests a number in the Batch that the call at pos returns.
func countsResult(cond ssa.Value, pos token.Pos) bool {
	b, ok := cond.(*ssa.BinOp)
	if !ok {
		return false
	}
	load, ok := b.X.(*ssa.UnOp)
	if _, number := b.X.Type().(*types.Basic); !ok || !number {
		return false
	}
	f, ok := load.X.(*ssa.FieldAddr)
	if !ok || typeName(f.X.Type()) != "broadcast.Batch" {
		return false
	}
	for _, r := range referrers(f.X) {
		if s, ok := r.(*ssa.Store); ok {
			if e, ok := s.Val.(*ssa.Extract); ok && e.Tuple.Pos() == pos {
				return true
			}
		}
	}
	return false
}

// reportLeak reports l if l still owns memory at the end of a path.
func (a *flow) reportLeak(l loc, st state, end token.Pos) {
	if !a.reporting || !l.isLocal() || st.deferred || st.bits&owned == 0 ||
		st.bits&(unknown|pending|valid|stale) != 0 || !st.acquired.IsValid() || a.leaked[st.acquired] {
		return
	}
	if _, variable := l.root.(*ssa.Alloc); !variable && !ownerPointer(l.root.Type()) &&
		!ownerValue(l.root.Type()) {
		return // a *Chain that belongs to the function that returned it
	}
	a.leaked[st.acquired] = true // one path is enough
	verb := "released"
	if f := releaseOf(l); f != "Release" {
		verb = "ended with " + f
	} else if typeName(l.root.Type()) == "millrace.Writer" {
		verb = "flushed or released"
	}
	if end.IsValid() && a.line(end) != a.line(st.acquired) {
		a.reportf(st.acquired, "%s is not %s on the path that ends at line %d", l, verb,
			a.line(end))
	} else {
		a.reportf(st.acquired, "%s is not %s", l, verb)
	}
}

func releaseOf(l loc) string {
	switch typeName(l.root.Type()) {
	case "millrace.Body", "broadcast.Cursor", "chunk.Tail", "redisbuf.Conn", "redisbuf.ReaderAt":
		return "Close"
	case "broadcast.Watcher":
		return "Stop"
	}
	return "Release"
}

// aliased reports whether another value may be the same pointer as v.
func (a *flow) aliased(v ssa.Value) bool {
	for _, r := range referrers(v) {
		if _, ok := r.(*ssa.Phi); ok {
			return true
		}
	}
	return false
}
