package ownership

import (
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// transfer changes s as instruction i does.
func (a *flow) transfer(s states, i ssa.Instruction) {
	a.staleOperands(s, i)
	switch i := i.(type) {
	case *ssa.Alloc:
		if t := i.Type().(*types.Pointer).Elem(); ownerValue(t) {
			l := loc{root: i}
			a.leak(l, s[l], s[l].acquired)
			s[l] = state{bits: empty}
			if a.aliased(i) {
				delete(s, l)
			}
		}
	case *ssa.Store:
		a.store(s, i)
	case *ssa.UnOp:
		switch {
		case i.Op == token.ARROW:
			unshare(s)
		case i.Op == token.MUL && ownerValue(i.Type()):
			a.load(s, i)
		}
	case *ssa.Send:
		unshare(s)
		a.handOn(s, i.X)
	case *ssa.Select:
		unshare(s)
		for _, state := range i.States {
			a.handOn(s, state.Send)
		}
	case *ssa.Call:
		a.call(s, i)
	case *ssa.Defer:
		a.deferCall(s, &i.Call)
	case *ssa.Go:
		for _, arg := range i.Call.Args {
			a.share(s, arg, i.Pos())
			a.handOn(s, arg)
		}
	case *ssa.MakeClosure:
		a.closure(s, i)
	case *ssa.MakeInterface:
		if lentToStandard(i) {
			a.firstUse(s, locate(i.X), nil)
		} else {
			a.handOn(s, i.X)
		}
	case *ssa.Return:
		for l, st := range s {
			if !a.returns(i, l) {
				a.leak(l, st, i.Pos())
			}
		}
		a.returnLent(s, i)
	case *ssa.FieldAddr:
		if owners[typeName(i.X.Type())] {
			a.handOn(s, i.X) // the implementation of the library
		}
	case *ssa.If, *ssa.Jump, *ssa.BinOp, *ssa.ChangeType, *ssa.DebugRef,
		*ssa.IndexAddr, *ssa.RunDefers, *ssa.Panic, *ssa.Extract:
	default:
		for _, op := range i.Operands(nil) {
			a.handOn(s, *op)
		}
	}
}

// handOn notes that other code may release the target of pointer v from now on.
func (a *flow) handOn(s states, v ssa.Value) {
	if v == nil {
		return
	}
	l := locate(v)
	if st, ok := s[l]; ok && st.bits&(valid|stale) == 0 {
		a.set(s, l, unknown)
	}
}

// set changes the bits of l. It records that the memory of l may have ended.
func (a *flow) set(s states, l loc, b bits) {
	st := s[l]
	st.bits = b
	s[l] = st
	a.ended[l] = true
	if b&unknown != 0 && !st.shared {
		delete(s, l)
	}
}

func (a *flow) returns(r *ssa.Return, l loc) bool {
	for _, v := range r.Results {
		if locate(stored(v)) == l {
			return true
		}
	}
	return false
}

func (a *flow) store(s states, i *ssa.Store) {
	to := locate(i.Addr)
	for l := range s { // a pointer variable changes
		if l.root == to.root && strings.HasPrefix(l.path, to.path+"*") {
			delete(s, l)
		}
	}
	if !ownerValue(i.Val.Type()) {
		a.handOn(s, i.Val)
		return
	}
	if !to.local() {
		delete(s, to)
		return
	}
	if u, ok := i.Val.(*ssa.UnOp); ok && u.Op == token.MUL && locate(u.X) == to {
		return // return c, where c is a named result
	}
	old := s[to]
	if a.reporting && old.bits == owned && old.acquired.IsValid() {
		a.reportf(old.acquired, "%s is not released before it is overwritten at line %d", to,
			a.line(i.Pos()))
	}
	st := state{bits: unknown, deferred: old.deferred, deferRelease: old.deferRelease}
	switch v := i.Val.(type) {
	case *ssa.Call:
		if !onHeap(v) {
			st.bits, st.acquired = owned, v.Pos()
		}
	case *ssa.Const:
		st.bits = empty
	case *ssa.Parameter:
		st.bits = owned // without st.acquired: only the caller knows whether there is memory
	case *ssa.Extract:
		switch tuple := v.Tuple.(type) {
		case *ssa.Call:
			if onHeap(tuple) {
				break
			}
			st.acquired = tuple.Pos()
			decideLater(&st, errorOf(tuple), empty, owned)
		case *ssa.UnOp:
			if tuple.Op == token.ARROW {
				st.acquired = tuple.Pos()
				if decideLater(&st, extract(tuple, 1), empty, owned); tuple.Block() != i.Block() {
					st.bits = owned // in the body of a for statement
				}
			}
		}
	case *ssa.UnOp:
		if v.Op == token.ARROW {
			st.bits, st.acquired = owned, v.Pos()
		} else if from, ok := s[locate(v.X)]; ok {
			l := locate(v.X)
			deferred, deferRelease := st.deferred, st.deferRelease
			st = from
			st.deferred, st.deferRelease, st.link = deferred, deferRelease, l
			a.set(s, l, copied)
		}
	}
	if st.bits == unknown {
		delete(s, to)
		return
	}
	s[to] = st
}

// onHeap reports whether a call returns a Slice of an arena.Heap, which needs no release.
func onHeap(call *ssa.Call) bool {
	for _, arg := range call.Call.Args {
		if i, ok := arg.(*ssa.MakeInterface); ok {
			arg = i.X
		}
		if typeName(arg.Type()) == "arena.Heap" {
			return true
		}
	}
	return false
}

// decideLater makes st depend on an error or boolean. If the program ignores it, the call is taken
// to have succeeded.
func decideLater(st *state, by ssa.Value, onError, onOK bits) {
	if by == nil || len(referrers(by)) == 0 {
		st.bits = onOK
		return
	}
	st.bits, st.by, st.onError, st.onOK = pending, by, onError, onOK
}

// load handles a copy of the owner that u reads.
func (a *flow) load(s states, u *ssa.UnOp) {
	l := locate(u.X)
	st, ok := s[l]
	if !ok {
		return
	}
	for _, r := range referrers(u) {
		switch r := r.(type) {
		case *ssa.Store:
			if locate(r.Addr).local() {
				continue // see store
			}
			a.set(s, l, unknown)
		case *ssa.Send:
			a.use(s, l, r.Pos(), "send")
			a.set(s, l, sent)
			st = s[l]
			st.ended = r.Pos()
			s[l] = st
		case *ssa.Return:
			if original, ok := s[st.link]; a.reporting && ok && original.bits == copied &&
				original.deferRelease {
				a.reportf(r.Pos(), "%s is returned, but the deferred Release ends its life", st.link)
			}
			a.set(s, l, unknown)
		case *ssa.Call:
			f, _ := callee(&r.Call)
			if f == nil || f.Signature().Recv() == nil || nameOf(f) == "" {
				a.set(s, l, unknown)
			}
		default:
			a.set(s, l, unknown)
		}
		if st, ok = s[l]; !ok {
			return
		}
	}
}

// use reports a use of l if its memory has been released or taken.
func (a *flow) use(s states, l loc, pos token.Pos, verb string) {
	st := s[l]
	if !a.reporting {
		return
	}
	switch st.bits {
	case released:
		a.reportf(pos, "%s of %s after its release at line %d", verb, l, a.line(st.ended))
	case owned | released:
		a.reportf(pos, "%s of %s, which may have been released at line %d", verb, l, a.line(st.ended))
	case taken:
		a.reportf(pos, "%s of %s, which is empty since the call at line %d", verb, l,
			a.line(st.ended))
	case sent:
		a.reportf(pos, "%s of %s after it was sent at line %d", verb, l, a.line(st.ended))
	}
}

// release notes that l is released at pos.
func (a *flow) release(s states, l loc, pos token.Pos) {
	st := s[l]
	if a.reporting {
		switch st.bits {
		case released:
			if ownerPointer(l.root.Type()) && releaseOf(l) != "Release" {
				break // a second Close is allowed
			}
			a.reportf(pos, "second release of %s, after the one at line %d", l, a.line(st.ended))
		case sent:
			a.reportf(pos, "release of %s after it was sent", l)
		}
	}
	for other, o := range s {
		switch {
		case o.bits&(valid|stale) != 0:
			if o.link == l {
				o.bits, o.ended = stale, pos
				s[other] = o
			}
		case other != l && (o.link == l || other == st.link):
			o.bits, o.ended = released, pos
			s[other] = o
		}
	}
	st.bits, st.ended = released, pos
	s[l] = st
	a.ended[l] = true
}

func (a *flow) call(s states, call *ssa.Call) {
	c := &call.Call
	if _, ok := c.Value.(*ssa.Builtin); ok {
		return
	}
	a.dropped(call)
	r, args := ruleOf(c)
	if r == nil {
		a.otherCall(s, call)
		return
	}
	at := func(n int) loc {
		if n < len(args) && args[n] != nil {
			return locate(args[n])
		}
		return loc{}
	}
	f, _ := callee(c)
	self, pos := at(0), call.Pos()
	for _, arg := range args {
		a.sharedUse(s, arg, pos)
	}
	if r.uses {
		a.use(s, self, pos, f.Name())
		a.firstUse(s, self, call)
	}
	for _, n := range r.borrows {
		a.use(s, at(n), pos, f.Name())
		a.firstUse(s, at(n), nil)
	}
	if r.reads || r.drops {
		a.expire(s, self, pos, !r.drops)
	}
	full := true // what is added to a Chain is not empty
	for _, n := range r.takes {
		l := at(n)
		a.use(s, l, pos, f.Name())
		full = full && s[l].bits == owned
		if a.reporting && n > 0 && takenAgain(call, l) {
			a.reportf(pos, "%s takes %s in a loop, but it is empty after the first time", f.Name(), l)
		}
		if n == 0 {
			a.expire(s, l, pos, false)
		}
		if l.root != nil {
			a.set(s, l, taken)
			st := s[l]
			st.ended = pos
			s[l] = st
		}
	}
	for _, n := range r.fills {
		if ignoresError(call) {
			a.handOn(s, args[n]) // perhaps there was an error
		} else {
			a.fill(s, at(n), pos, errorOf(call))
		}
	}
	for _, n := range r.adds {
		if !full && s[at(n)].bits != owned {
			a.set(s, at(n), unknown)
		}
		a.fill(s, at(n), pos, nil)
	}
	for _, n := range r.drains {
		a.handOn(s, args[n])
	}
	switch {
	case r.releases:
		a.release(s, self, pos)
	case r.renews:
		delete(s, self)
	case r.flushes:
		if st, ok := s[self]; ok && st.bits&unknown == 0 && st.bits != released {
			a.set(s, self, empty)
		}
	case r.sends:
		a.expire(s, self, pos, false)
		if a.reporting && len(args) > 1 && changesInLoop(call, args[1]) && takenAgain(call, self) {
			a.reportf(pos, "%s sends %s in a loop, but it is empty after the first time", f.Name(), self)
		}
		if st, ok := s[self]; ok {
			onError := unknown
			if st.bits == owned {
				onError = owned
			}
			a.ended[self] = true
			if err := errorOf(call); err == nil || len(referrers(err)) == 0 {
				a.set(s, self, unknown)
			} else {
				decideLater(&st, err, onError, empty)
				s[self] = st
			}
		}
	}
	if v := result(call); r.gives && v != nil && ownerPointer(v.Type()) {
		a.give(s, call, v)
	}
	if v := lentBy(call); v != nil {
		s[loc{root: v}] = state{bits: valid, link: self, peeked: r.peeks}
	}
}

// takenAgain reports whether a call that takes l is in a loop that never fills l again.
func takenAgain(call *ssa.Call, l loc) bool {
	loop := innermost(call.Block())
	d := l.definedIn()
	if loop == nil || d == nil || l.path != "" || loop.has[d] {
		return false
	}
	if _, variable := l.root.(*ssa.Alloc); !variable {
		return false
	}
	for _, r := range referrers(l.root) {
		if r == ssa.Instruction(call) || !loop.has[r.Block()] {
			continue
		}
		other, ok := r.(*ssa.Call)
		if !ok {
			return false
		}
		rule, args := ruleOf(&other.Call)
		if rule == nil {
			if f, _ := callee(&other.Call); f == nil || nameOf(f) == "" {
				return false
			}
			continue // a method such as Len
		}
		for _, list := range [][]int{rule.fills, rule.adds, rule.drains} {
			for _, n := range list {
				if n < len(args) && args[n] == l.root {
					return false
				}
			}
		}
	}
	for _, r := range referrers(l.root) { // another name for the variable
		switch r.(type) {
		case *ssa.MakeClosure, *ssa.Phi, *ssa.MakeInterface:
			return false
		}
	}
	return true
}

// changesInLoop reports whether v is computed anew in each iteration of the loop of a call.
func changesInLoop(call *ssa.Call, v ssa.Value) bool {
	loop := innermost(call.Block())
	i, ok := v.(ssa.Instruction)
	if loop == nil || !ok || !loop.has[i.Block()] {
		return false
	}
	switch v := v.(type) {
	case *ssa.MakeInterface:
		return changesInLoop(call, v.X)
	case *ssa.ChangeInterface:
		return changesInLoop(call, v.X)
	}
	return true
}

// result returns the first result of a call, or nil if it is not used.
func result(call *ssa.Call) ssa.Value {
	if _, tuple := call.Type().(*types.Tuple); tuple {
		return extract(call, 0)
	}
	return call
}

// give notes that the caller owns the target of pointer v from now on.
func (a *flow) give(s states, call *ssa.Call, v ssa.Value) {
	l := loc{root: v}
	a.leak(l, s[l], s[l].acquired)
	if a.aliased(v) {
		delete(s, l)
		return
	}
	st := state{acquired: call.Pos()}
	if decideLater(&st, errorOf(call), empty, owned); buffered(v.Type()) {
		st.bits = empty // until the first read or write
	}
	s[l] = st
}

// buffered reports whether t is a type that takes a block when it is first used.
func buffered(t types.Type) bool {
	name := typeName(t)
	return name == "millrace.Reader" || name == "millrace.Writer"
}

// firstUse notes that a Reader or Writer takes a block. A Writer that has failed holds no block.
func (a *flow) firstUse(s states, l loc, call *ssa.Call) {
	if l.root == nil || !buffered(l.root.Type()) {
		return
	}
	st, ok := s[l]
	if !ok || st.bits != empty && st.bits != owned {
		return
	}
	st.bits = owned
	if call != nil && typeName(l.root.Type()) == "millrace.Writer" && errorOf(call) != nil {
		decideLater(&st, errorOf(call), empty, owned)
	}
	s[l] = st
}

// fill notes that l has got memory.
func (a *flow) fill(s states, l loc, pos token.Pos, err ssa.Value) {
	st, ok := s[l]
	if !ok || st.bits&unknown != 0 {
		return
	}
	if !l.local() {
		delete(s, l)
		return
	}
	a.expire(s, l, pos, true)
	if st.bits == owned {
		return
	}
	before := st.bits
	if before&pending != 0 {
		a.set(s, l, unknown)
		return
	}
	st.acquired = pos
	decideLater(&st, err, before, owned)
	s[l] = st
}

// expire notes that slices of l may not be used any more: those that were peeked, or all.
func (a *flow) expire(s states, l loc, pos token.Pos, peeked bool) {
	for other, o := range s {
		if o.bits&(valid|stale) != 0 && o.link == l && (o.peeked || !peeked) {
			o.bits, o.ended = stale, pos
			s[other] = o
		}
	}
}

// otherCall handles a call of a function that is not in the table.
func (a *flow) otherCall(s states, call *ssa.Call) {
	c := &call.Call
	fn := c.StaticCallee()
	if m, ok := c.Value.(*ssa.MakeClosure); ok {
		fn = m.Fn.(*ssa.Function)
		for i, b := range m.Bindings {
			a.pass1(s, fn, fn.FreeVars[i], b, call.Pos())
		}
	}
	f, _ := callee(c)
	if !quiet(f) {
		unshare(s)
	}
	if failsTest(f) {
		for l, st := range s { // what a failed test leaves over does not matter
			if st.bits&(owned|pending) != 0 {
				delete(s, l)
			}
		}
	}
	for i, arg := range c.Args {
		if i == 0 && f != nil && nameOf(f) != "" && f.Signature().Recv() != nil {
			continue // a method such as Len
		}
		if fn != nil && len(fn.Blocks) > 0 && i < len(fn.Params) {
			a.pass1(s, fn, fn.Params[i], arg, call.Pos())
		} else {
			a.handOn(s, arg)
		}
	}
	if f == nil || f.Pkg() == nil || !standard(f.Pkg().Path()) {
		for l, st := range s { // other code may change fields
			if _, global := l.root.(*ssa.Global); (global || l.path != "") && !st.shared {
				delete(s, l)
			}
		}
	}
	if v := result(call); v != nil && ownerPointer(v.Type()) && fn != nil && a.makes(fn, 0) {
		a.give(s, call, v)
	}
}

// makes reports whether each result of fn is nil or comes from a function that gives ownership.
func (a *flow) makes(fn *ssa.Function, depth int) bool {
	gives := false
	if len(fn.Blocks) == 0 || depth > 3 {
		return false
	}
	for _, b := range fn.Blocks {
		r, ok := b.Instrs[len(b.Instrs)-1].(*ssa.Return)
		if !ok || len(r.Results) == 0 {
			continue
		}
		v := stored(r.Results[0])
		if isNil(v) {
			continue
		}
		if e, ok := v.(*ssa.Extract); ok && e.Index == 0 {
			v = e.Tuple
		}
		call, ok := v.(*ssa.Call)
		if !ok {
			return false
		}
		for _, u := range referrers(result(call)) {
			if s, ok := u.(*ssa.Store); ok && s.Val == result(call) && !locate(s.Addr).local() {
				return false // it has another owner
			}
		}
		if rule, _ := ruleOf(&call.Call); rule == nil || !rule.gives {
			inner := call.Call.StaticCallee()
			if inner == nil || !a.makes(inner, depth+1) {
				return false
			}
		}
		gives = true
	}
	return gives
}

// pass1 handles an argument or captured variable v of a call of fn, which has the name param there.
func (a *flow) pass1(s states, fn *ssa.Function, param, v ssa.Value, pos token.Pos) {
	l := locate(v)
	st, ok := s[l]
	if !ok || st.bits&(valid|stale) != 0 {
		return
	}
	a.sharedUse(s, v, pos)
	ifOwned, ifEmpty := a.after(fn, param, owned), a.after(fn, param, empty)
	switch {
	case ifOwned == owned && ifEmpty == empty:
		if usesBytes(fn, param) {
			a.use(s, l, pos, "use")
		}
	case st.bits == owned && ifOwned == released:
		a.release(s, l, pos)
	case st.bits == owned && ifOwned == taken:
		a.set(s, l, taken)
		st := s[l]
		st.ended = pos
		s[l] = st
	case st.bits == owned && ifOwned == owned:
	case st.bits == empty && ifEmpty == owned:
		a.fill(s, l, pos, nil)
	default:
		a.set(s, l, unknown)
	}
}

// usesBytes reports whether fn calls a method that uses the bytes of v.
func usesBytes(fn *ssa.Function, v ssa.Value) bool {
	for _, r := range referrers(v) {
		if call, ok := r.(ssa.CallInstruction); ok {
			if rule, args := ruleOf(call.Common()); rule != nil && rule.uses && args[0] == v {
				return true
			}
		}
	}
	return false
}

func (a *flow) deferCall(s states, c *ssa.CallCommon) {
	r, args := ruleOf(c)
	if r == nil {
		args = c.Args
	}
	for i, arg := range args {
		if arg == nil {
			continue
		}
		l := locate(arg)
		if st, ok := s[l]; ok {
			st.deferred = true
			st.deferRelease = st.deferRelease || r != nil && r.releases && i == 0
			s[l] = st
			a.ended[l] = true
		}
	}
}

// closure handles the variables that a function literal captures.
func (a *flow) closure(s states, m *ssa.MakeClosure) {
	deferred, concurrent, calledHere := true, false, true
	for _, r := range referrers(m) {
		_, isDefer := r.(*ssa.Defer)
		deferred = deferred && isDefer
		call, isCall := r.(*ssa.Call)
		calledHere = calledHere && isCall && call.Call.Value == m
		if isCall {
			f, _ := callee(&call.Call)
			concurrent = concurrent || f != nil && starts[f.Name()]
		}
		if _, isGo := r.(*ssa.Go); isGo {
			concurrent = true
		}
	}
	if calledHere {
		return // see otherCall
	}
	fn := m.Fn.(*ssa.Function)
	if f, ok := bound(m); ok {
		r := rules[nameOf(f)]
		if deferred {
			return // see deferCall
		}
		if r == nil || !r.uses || r.sends {
			a.handOn(s, m.Bindings[0])
		}
		return
	}
	for i, b := range m.Bindings {
		l := locate(b)
		if st, ok := s[l]; ok && st.bits&(valid|stale) == 0 {
			ifOwned, ifEmpty := a.after(fn, fn.FreeVars[i], owned), a.after(fn, fn.FreeVars[i], empty)
			switch {
			case ifOwned == owned && ifEmpty == empty:
			case deferred:
				st.deferred = true
				st.deferRelease = st.deferRelease || ifOwned == released
				s[l] = st
				a.ended[l] = true
			case ifOwned == owned && st.bits == owned:
			default:
				a.set(s, l, unknown)
			}
		}
		if concurrent && usesAlone(fn, fn.FreeVars[i]) {
			a.share(s, b, fn.Pos())
		}
	}
}

// shareKey returns the loc of the single-goroutine value that v points to, or that the variable v
// points to.
func shareKey(v ssa.Value) (loc, bool) {
	l := locate(v)
	t := v.Type()
	if p, ok := t.Underlying().(*types.Pointer); ok {
		if _, ok := p.Elem().Underlying().(*types.Pointer); ok {
			l.path += "*"
			t = p.Elem()
		}
	}
	_, pointer := t.Underlying().(*types.Pointer)
	return l, pointer && singles[typeName(t)]
}

// share notes that another goroutine uses the target of v from now on.
func (a *flow) share(s states, v ssa.Value, pos token.Pos) {
	l, ok := shareKey(v)
	if !ok {
		return
	}
	st, known := s[l]
	if !known {
		st.bits = unknown
	}
	if st.shared && a.reporting {
		a.reportf(pos, "two goroutines use %s at the same time: this one and the one started at line %d",
			l, a.line(st.sharedAt))
	}
	st.shared, st.sharedAt = true, pos
	s[l] = st
}

// sharedUse reports a use of the target of v while another goroutine uses it.
func (a *flow) sharedUse(s states, v ssa.Value, pos token.Pos) {
	if v == nil {
		return
	}
	l, ok := shareKey(v)
	if st := s[l]; ok && st.shared && a.reporting {
		a.reportf(pos, "two goroutines use %s at the same time: this one and the one started at line %d",
			l, a.line(st.sharedAt))
	}
}

// unshare notes that goroutines may have ended or waited.
func unshare(s states) {
	for l, st := range s {
		if st.shared {
			st.shared = false
			s[l] = st
			if st.bits&unknown != 0 {
				delete(s, l)
			}
		}
	}
}

// usesAlone reports whether fn calls a method of the captured variable v, and does not wait for
// other goroutines.
func usesAlone(fn *ssa.Function, v *ssa.FreeVar) bool {
	key, ok := shareKey(v)
	uses := false
	for _, b := range fn.Blocks {
		for _, i := range b.Instrs {
			switch i := i.(type) {
			case *ssa.Select:
				return false
			case *ssa.UnOp:
				if i.Op == token.ARROW {
					return false
				}
			case *ssa.Call:
				if f, _ := callee(&i.Call); f != nil && waits[f.Name()] {
					return false
				}
				if r, args := ruleOf(&i.Call); r != nil {
					for _, arg := range args {
						if arg != nil {
							uses = uses || locate(arg) == key
						}
					}
				}
			}
		}
	}
	return ok && uses
}

// failsTest reports whether f is a method of testing.T that fails the test.
func failsTest(f *types.Func) bool {
	return f != nil && f.Pkg() != nil && f.Pkg().Path() == "testing" && fails[f.Name()]
}

var fails = fields("Error Errorf Fail FailNow Fatal Fatalf Skip Skipf SkipNow")

// starts are functions that call their argument on another goroutine.
var starts = fields("Go AfterFunc")

var waits = fields("Wait Lock RLock TryLock Do Acquire")

// quiet reports whether f cannot wait for another goroutine.
func quiet(f *types.Func) bool {
	if f == nil || f.Pkg() == nil {
		return false
	}
	if f.Name() == "Go" {
		return true
	}
	return standard(f.Pkg().Path()) && !waits[f.Name()] && f.Pkg().Path() != "testing"
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// lentToStandard reports whether an interface value is only passed to functions of the standard
// library that do not release it.
func lentToStandard(i *ssa.MakeInterface) bool {
	if !ownerPointer(i.X.Type()) {
		return false
	}
	users := referrers(i)
	for _, r := range users {
		call, ok := r.(*ssa.Call)
		if !ok {
			return false
		}
		f, _ := callee(&call.Call)
		if f == nil || f.Pkg() == nil {
			return false
		}
		switch f.Pkg().Path() {
		case "io":
			if strings.HasPrefix(f.Name(), "Copy") || strings.HasPrefix(f.Name(), "Read") {
				continue
			}
		case "encoding/binary", "fmt":
			continue
		}
		return false
	}
	return true
}

// dropped reports a call whose result must be released and is not used.
func (a *flow) dropped(call *ssa.Call) {
	if !a.reporting {
		return
	}
	if f, _ := callee(&call.Call); f != nil && f.Name() == "Take" {
		return // the frame may be empty
	}
	if err := errorOf(call); err != nil && err != ssa.Value(call) && len(referrers(err)) > 0 {
		return // the program expects an error
	}
	r, _ := ruleOf(&call.Call)
	results := call.Call.Signature().Results()
	for n := range results.Len() {
		t := results.At(n).Type()
		if !ownerValue(t) && !(ownerPointer(t) && r != nil && r.gives) {
			continue
		}
		v := ssa.Value(call)
		if results.Len() > 1 {
			v = extract(call, n)
		}
		if v == nil || len(referrers(v)) == 0 {
			a.reportf(call.Pos(), "the %s that this call returns is not released", typeName(t))
		}
	}
}
