package ownership

import (
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

func (a *flow) call(s states, call *ssa.Call) {
	c := &call.Call
	if _, ok := c.Value.(*ssa.Builtin); ok {
		return
	}
	a.reportDropped(call)
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
		a.checkUse(s, self, pos, f.Name())
		a.firstUse(s, self, call)
	}
	for _, n := range r.borrows {
		a.checkUse(s, at(n), pos, f.Name())
		a.firstUse(s, at(n), nil)
		if v := result(call); v != nil && keepsPointer(v) {
			a.handOn(s, args[n]) // the result keeps the argument
		}
	}
	if r.reads || r.drops {
		a.expire(s, self, pos, !r.drops)
	}
	for other, o := range s {
		if o.link == self && o.peeked && o.bits == valid && (r.skips || r.peeks && o.skipped) {
			if o.skipped = true; r.peeks {
				o.bits, o.ended = stale, pos
			}
			s[other] = o
		}
	}
	full := true // the taken arguments are not empty
	for _, n := range r.takes {
		l := at(n)
		if l.root != nil && (typeName(l.root.Type()) != "millrace.Chain" || s[l].bits&released == 0) {
			a.checkUse(s, l, pos, f.Name()) // a released Chain is empty, and may be taken
		}
		full = full && s[l].bits == owned
		if a.reporting && n > 0 && takenAgain(call, l) {
			a.reportf(pos, "%s takes %s in a loop, but it is empty after the first time", f.Name(), l)
		}
		switch {
		case len(r.adds) > 0: // the slices now belong to the destination
			for other, o := range s {
				if o.link == l && o.bits&(valid|stale) != 0 {
					o.link = at(r.adds[0])
					s[other] = o
				}
			}
		case len(r.fills) == 0 && len(r.drains) == 0:
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
			a.recordFill(s, at(n), pos, errorOf(call))
		}
	}
	for _, n := range r.adds {
		if !full && s[at(n)].bits != owned {
			a.set(s, at(n), unknown)
		}
		a.recordFill(s, at(n), pos, nil)
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
		if a.reporting && len(args) > 1 && changesInLoop(call, args[1]) && continuesLoop(call) &&
			takenAgain(call, self) {
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
		a.recordOwner(s, call, v)
	}
	a.lend(s, call)
}

func (a *flow) lend(s states, call *ssa.Call) {
	for _, l := range a.lentBy(call) {
		s[loc{root: l.v}] = state{bits: valid, link: l.owner, peeked: l.peeked}
	}
}

// takenAgain reports whether a call in a loop takes the memory of l again after l has become empty.
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

// changesInLoop reports whether v changes with each iteration of the loop that contains the call.
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

// continuesLoop reports whether the loop that contains the call continues after the call succeeds.
func continuesLoop(call *ssa.Call) bool {
	loop, err := innermost(call.Block()), errorOf(call)
	if loop == nil || err == nil {
		return loop != nil
	}
	for b := range loop.has {
		branch, ok := b.Instrs[len(b.Instrs)-1].(*ssa.If)
		if !ok {
			continue
		}
		for k, next := range b.Succs {
			v, isNil, known := outcome(branch.Cond, k == 0)
			if v == err && known && isNil && !loop.has[next] {
				return false
			}
		}
	}
	return true
}

// keepsPointer reports whether the program does more with pointer v than call its methods.
func keepsPointer(v ssa.Value) bool {
	for _, r := range referrers(v) {
		c, ok := r.(ssa.CallInstruction)
		if _, isGo := r.(*ssa.Go); !ok || isGo || len(c.Common().Args) == 0 || c.Common().Args[0] != v {
			return true
		}
		if f, _ := callee(c.Common()); f == nil || f.Signature().Recv() == nil {
			return true
		}
	}
	return false
}

// result returns the first result of a call, or nil if the program does not use it.
func result(call *ssa.Call) ssa.Value { return resultAt(call, 0) }

// recordOwner records that the caller must release the target of pointer v.
func (a *flow) recordOwner(s states, call *ssa.Call, v ssa.Value) {
	l := loc{root: v}
	a.reportLeak(l, s[l], s[l].acquired)
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

// buffered reports whether a value of type t takes memory only at its first use.
func buffered(t types.Type) bool {
	name := typeName(t)
	return name == "millrace.Reader" || name == "millrace.Writer"
}

// firstUse records that a Reader or Writer owns memory. A Writer that has failed owns none.
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

// recordFill records that a call adds memory to l, unless the call returns an error.
func (a *flow) recordFill(s states, l loc, pos token.Pos, err ssa.Value) {
	st, ok := s[l]
	if !ok || st.bits&unknown != 0 {
		return
	}
	if !l.isLocal() {
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

// expire marks the slices of l as stale. If peeked is true, expire marks only peeked slices.
func (a *flow) expire(s states, l loc, pos token.Pos, peeked bool) {
	for other, o := range s {
		if _, ok := o.link.pathFrom(l); o.bits&(valid|stale) != 0 && ok && (o.peeked || !peeked) {
			o.bits, o.ended = stale, pos
			s[other] = o
		}
	}
}

// otherCall handles a call to a function that is not in the table.
func (a *flow) otherCall(s states, call *ssa.Call) {
	c := &call.Call
	fn := c.StaticCallee()
	if m, ok := c.Value.(*ssa.MakeClosure); ok {
		fn = m.Fn.(*ssa.Function)
		for i, b := range m.Bindings {
			a.argument(s, fn, fn.FreeVars[i], b, call.Pos())
		}
	}
	f, _ := callee(c)
	if !quiet(f) {
		unshare(s)
	}
	if failsTest(f) {
		for l, st := range s { // leaks of a failed test do not matter
			if st.bits&(owned|pending) != 0 {
				delete(s, l)
			}
		}
	}
	for i, arg := range c.Args {
		if i == 0 && f != nil && nameOf(f) != "" && f.Signature().Recv() != nil {
			if f.Name() == "Len" && a.reporting {
				a.lengthOfTaken(s, locate(arg), call)
			}
			continue // a method such as Len
		}
		if fn != nil && len(fn.Blocks) > 0 && i < len(fn.Params) {
			a.argument(s, fn, fn.Params[i], arg, call.Pos())
		} else {
			a.handOn(s, arg)
		}
	}
	a.lend(s, call)
	if f == nil || f.Pkg() == nil || !standard(f.Pkg().Path()) {
		for l, st := range s { // other code may change fields
			if st.bits&(valid|stale) != 0 && (f != nil && f.Pkg() != a.fn.Pkg.Pkg || passesRoot(c, l)) {
				continue // see argument
			}
			if _, global := l.root.(*ssa.Global); (global || l.path != "") && !st.shared {
				delete(s, l)
			}
		}
	}
	if v := result(call); v != nil && ownerPointer(v.Type()) && fn != nil && a.createsResult(fn, 0) {
		a.recordOwner(s, call, v)
	}
}

// lengthOfTaken reports a call to Len on an owner that another call has emptied. It allows calls in
// tests, and calls with a result that is only compared.
func (a *flow) lengthOfTaken(s states, l loc, call *ssa.Call) {
	st := s[l]
	test := strings.HasSuffix(a.pass.Fset.Position(call.Pos()).Filename, "_test.go")
	if st.bits == taken && !test && !onlyCompared(call) {
		a.reportf(call.Pos(), "Len of %s is 0 since the call at line %d", l, a.line(st.ended))
	}
}

func onlyCompared(call *ssa.Call) bool {
	for _, r := range referrers(call) {
		b, ok := r.(*ssa.BinOp)
		if !ok || b.Op != token.EQL && b.Op != token.NEQ && b.Op != token.GTR && b.Op != token.LSS {
			return false
		}
	}
	return true
}

// createsResult reports whether fn returns only nil or an owner that the caller must release.
func (a *flow) createsResult(fn *ssa.Function, depth int) bool {
	gives := false
	if len(fn.Blocks) == 0 || depth > 3 {
		return false
	}
	for r := range instructions[*ssa.Return](fn) {
		if len(r.Results) == 0 {
			continue
		}
		v := storedValue(r.Results[0])
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
			if s, ok := u.(*ssa.Store); ok && s.Val == result(call) && !locate(s.Addr).isLocal() {
				return false // it has another owner
			}
		}
		if rule, _ := ruleOf(&call.Call); rule == nil || !rule.gives {
			inner := call.Call.StaticCallee()
			if inner == nil || !a.createsResult(inner, depth+1) {
				return false
			}
		}
		gives = true
	}
	return gives
}

// argument updates s for a call that passes v to fn as param.
func (a *flow) argument(s states, fn *ssa.Function, param, v ssa.Value, pos token.Pos) {
	l := locate(v)
	a.lentArgument(s, fn, param, v, pos)
	st, ok := s[l]
	if !ok || st.bits&(valid|stale) != 0 {
		return
	}
	a.sharedUse(s, v, pos)
	ifOwned, ifEmpty := a.after(fn, param, owned), a.after(fn, param, empty)
	switch {
	case ifOwned == owned && ifEmpty == empty:
		if usesBytes(fn, param) {
			a.checkUse(s, l, pos, "use")
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
		a.recordFill(s, l, pos, nil)
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

// reportDropped reports a call if the program does not use an owner that the call returns.
func (a *flow) reportDropped(call *ssa.Call) {
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
		if v := resultAt(call, n); v == nil || len(referrers(v)) == 0 {
			a.reportf(call.Pos(), "the %s that this call returns is not released", typeName(t))
		}
	}
}

// lentArgument handles a call that passes v to fn as param. It updates the state of each slice that
// v or a field of v has lent.
func (a *flow) lentArgument(s states, fn *ssa.Function, param, v ssa.Value, pos token.Pos) {
	l := locate(v)
	if _, pointer := v.Type().Underlying().(*types.Pointer); !pointer {
		return
	}
	for other, o := range s {
		link, ok := o.link.pathFrom(l)
		if !ok || o.bits&(valid|stale) == 0 {
			continue
		}
		slice, isField := other.pathFrom(l)
		if !isField {
			slice = "!" // not a field
		}
		switch a.stateAfter(fn, loc{param, slice}, state{bits: o.bits, link: loc{param, link},
			peeked: o.peeked, skipped: o.skipped}) {
		case stale:
			if o.bits != stale {
				o.bits, o.ended = stale, pos
				s[other] = o
			}
		case valid:
			if o.bits != valid { // a new slice in the field
				o.bits = valid
				s[other] = o
			}
		default:
			if isField || o.bits != stale {
				delete(s, other)
			}
		}
	}
}

// passesRoot reports whether a call passes the root of l to a function of this package.
func passesRoot(c *ssa.CallCommon, l loc) bool {
	return localCallee(c) != nil &&
		slices.ContainsFunc(c.Args, func(v ssa.Value) bool { return locate(v).root == l.root })
}
