package ownership

import (
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// transfer updates s with the effects of instruction i.
func (a *flow) transfer(s states, i ssa.Instruction) {
	a.staleOperands(s, i)
	switch i := i.(type) {
	case *ssa.Alloc:
		if t := i.Type().(*types.Pointer).Elem(); ownerValue(t) {
			l := loc{root: i}
			a.reportLeak(l, s[l], s[l].acquired)
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
		case i.Op == token.MUL && locate(i.X) == a.field && s[a.field].bits == stale && usesElements(i):
			a.staleLoad = i.Pos()
		}
	case *ssa.Send:
		unshare(s)
		a.handOn(s, i.X)
	case *ssa.Select:
		unshare(s)
		for n, c := range i.States {
			if c.Send == nil {
				continue
			}
			l := locate(c.Send)
			if u, ok := c.Send.(*ssa.UnOp); ok && u.Op == token.MUL && ownerValue(u.Type()) {
				l = locate(u.X)
			}
			if st, ok := s[l]; ok && st.bits == owned {
				st.bits, st.decider, st.choice, st.onError, st.onOK = pending, i, n, owned, sent
				st.ended = c.Pos
				s[l] = st
				a.ended[l] = true
			} else {
				a.set(s, l, unknown)
			}
		}
	case *ssa.Call:
		a.call(s, i)
		if v := result(i); v != nil && ownerValue(v.Type()) && !onHeap(i) && !storedLocally(v) {
			a.recordOwner(s, i, v) // a variable without an address
		}
	case *ssa.Defer:
		a.deferCall(s, &i.Call)
	case *ssa.Go:
		for _, arg := range i.Call.Args {
			a.markShared(s, arg, i.Pos())
			a.handOn(s, arg)
		}
	case *ssa.MakeClosure:
		a.closure(s, i)
	case *ssa.MakeInterface:
		if ownerPointer(i.X.Type()) && a.onlyRead(i, 0) {
			a.firstUse(s, locate(i.X), nil)
		} else {
			a.handOn(s, i.X)
		}
	case *ssa.Return:
		for l, st := range s {
			if !a.returns(i, l) {
				a.reportLeak(l, st, i.Pos())
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

// handOn records that other code may release the target of pointer v.
func (a *flow) handOn(s states, v ssa.Value) {
	if v == nil {
		return
	}
	l := locate(v)
	if st, ok := s[l]; ok && st.bits&(valid|stale) == 0 {
		a.set(s, l, unknown)
	}
}

// set replaces the bits in the state of l with b, and adds l to a.ended.
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
		if locate(storedValue(v)) == l {
			return true
		}
	}
	return false
}

// storedLocally reports whether v is assigned to a variable of the function.
func storedLocally(v ssa.Value) bool {
	for _, r := range referrers(v) {
		if st, ok := r.(*ssa.Store); ok && locate(st.Addr).isLocal() {
			return true
		}
	}
	return len(referrers(v)) == 0 // see reportDropped
}

// store handles the assignment of an owner, or of a pointer to an owner.
func (a *flow) store(s states, i *ssa.Store) {
	if ownerValue(i.Val.Type()) {
		delete(s, loc{root: i.Val})
	}
	to := locate(i.Addr)
	pointer := loc{to.root, to.path + "*"}
	for l, st := range s { // a pointer variable changes
		_, changes := l.pathFrom(pointer)
		if _, other := st.link.pathFrom(pointer); changes || other && st.bits&(valid|stale) != 0 {
			delete(s, l)
		}
	}
	a.storeLent(s, to, i.Val)
	if !ownerValue(i.Val.Type()) {
		a.handOn(s, i.Val)
		return
	}
	if !to.isLocal() {
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

// decideLater makes st depend on the outcome of a call. The argument decider is the error or
// boolean that the call returns. If the program ignores decider, decideLater assumes that the call
// succeeds.
func decideLater(st *state, decider ssa.Value, onError, onOK bits) {
	if decider == nil || len(referrers(decider)) == 0 {
		st.bits = onOK
		return
	}
	st.bits, st.decider, st.onError, st.onOK = pending, decider, onError, onOK
}

// load handles the instructions that use the owner loaded by u.
func (a *flow) load(s states, u *ssa.UnOp) {
	l := locate(u.X)
	st, ok := s[l]
	if !ok {
		return
	}
	for _, r := range referrers(u) {
		switch r := r.(type) {
		case *ssa.Store:
			if locate(r.Addr).isLocal() {
				continue // see store
			}
			a.set(s, l, unknown)
		case *ssa.Select: // see transfer
		case *ssa.Send:
			a.checkUse(s, l, r.Pos(), "send")
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

// checkUse reports an error if l has been released, taken or sent.
func (a *flow) checkUse(s states, l loc, pos token.Pos, verb string) {
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

// release records the release of l at pos. It reports a second release.
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
			concurrent = concurrent || f != nil && starters[f.Name()]
		}
		if _, isGo := r.(*ssa.Go); isGo {
			concurrent = true
		}
	}
	if calledHere {
		return // see otherCall
	}
	fn := m.Fn.(*ssa.Function)
	if f, ok := boundMethod(m); ok {
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
			a.markShared(s, b, fn.Pos())
		}
	}
}

// onlyRead reports whether each use of the interface value v is a call that cannot release v.
func (c *checker) onlyRead(v ssa.Value, depth int) bool {
	for _, r := range referrers(v) {
		if i, ok := r.(*ssa.ChangeInterface); ok && c.onlyRead(i, depth) {
			continue
		}
		call, ok := r.(*ssa.Call)
		if !ok {
			return false
		}
		f, _ := callee(&call.Call)
		if f == nil || f.Pkg() == nil {
			return false
		}
		if call.Call.Value == v {
			if f.Name() == "Close" || slices.Contains(call.Call.Args, v) {
				return false
			}
			continue
		}
		if fns := c.implementations(&call.Call); len(fns) > 0 && depth < 3 {
			for _, fn := range fns {
				for n, arg := range call.Call.Args {
					if p := fn.Params[n+len(fn.Params)-len(call.Call.Args)]; arg == v && !c.onlyRead(p, depth+1) {
						return false
					}
				}
			}
			continue
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

// implementations returns the functions of this package that a call may execute. It returns nil if
// other packages can implement the interface.
func (c *checker) implementations(call *ssa.CallCommon) (fns []*ssa.Function) {
	if fn := localCallee(call); fn != nil {
		return []*ssa.Function{fn}
	}
	n, ok := types.Unalias(call.Value.Type()).(*types.Named)
	if !call.IsInvoke() || !ok || n.Obj().Pkg() != c.pass.Pkg ||
		n.Obj().Exported() && c.pass.Pkg.Name() != "main" {
		return nil
	}
	for _, fn := range c.fns {
		recv := fn.Signature.Recv()
		if recv != nil && fn.Name() == call.Method.Name() &&
			types.Implements(recv.Type(), n.Underlying().(*types.Interface)) {
			fns = append(fns, fn)
		}
	}
	return fns
}
