package ownership

import (
	"cmp"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// staleOperands reports stale slices that i uses.
func (a *flow) staleOperands(s states, i ssa.Instruction) {
	if !a.reporting {
		return
	}
	switch i := i.(type) {
	case *ssa.Call:
		if b, ok := i.Call.Value.(*ssa.Builtin); ok && (b.Name() == "len" || b.Name() == "cap") {
			return
		}
	case *ssa.IndexAddr, *ssa.Convert, *ssa.Return, *ssa.Send, *ssa.MapUpdate:
	case *ssa.MakeInterface: // such as an argument of fmt.Println
		if len(referrers(i)) == 0 {
			return
		}
	default:
		return
	}
	for _, op := range i.Operands(nil) {
		if *op == nil || isContainer((*op).Type()) && typeName((*op).Type()) == "" {
			continue // the slices in it may have been replaced
		}
		for _, lent := range a.derived[*op] {
			st := s[loc{root: lent}]
			if st.bits == stale {
				what := cmp.Or(a.variableName(*op), a.variableName(lent))
				if what == "" {
					what = "a slice that"
				} else {
					what += ", which"
				}
				pos := i.Pos()
				if _, conv := i.(*ssa.MakeInterface); conv {
					pos = callAfter(i)
				}
				if !pos.IsValid() {
					pos = (*op).Pos()
				}
				a.reportf(pos, "use of %s is valid only until the call at line %d; copy its bytes or "+
					"read it again", what, a.line(st.ended))
			}
		}
	}
}

// returnLent adds a diagnostic if r returns a slice of an owner that a deferred call releases.
func (a *flow) returnLent(s states, r *ssa.Return) {
	if !a.reporting {
		return
	}
	for _, v := range r.Results {
		for _, lent := range a.derived[storedValue(v)] {
			owner := s[loc{root: lent}].link
			if owner.isLocal() && s[owner].deferRelease {
				a.reportf(r.Pos(), "a slice of %s is returned, but the deferred %s ends its life",
					owner, releaseOf(owner))
			}
		}
	}
}

// keptSlices reports slices that the program stores for longer than they are valid.
func (a *flow) keptSlices() {
	for call := range instructions[*ssa.Call](a.fn) {
		if p := lentParam(call); p != nil {
			w := keeper{a: a, f: p.Parent(), callback: true, seen: map[ssa.Value]bool{}}
			w.follow(p, false)
		}
		for _, l := range a.lentBy(call) {
			if _, isSlice := l.v.Type().Underlying().(*types.Slice); isSlice {
				w := keeper{a: a, f: a.fn, call: call, owner: l.owner, peeked: l.peeked,
					seen: map[ssa.Value]bool{}}
				w.follow(l.v, isContainer(l.v.Type()))
			}
		}
	}
}

// lentParam returns the parameter of a callback or loop body that receives lent slices, or nil.
func lentParam(call *ssa.Call) ssa.Value {
	if r, args := ruleOf(&call.Call); r != nil && len(r.calls) > 0 && r.calls[0] < len(args) {
		return firstParam(args[r.calls[0]])
	}
	if seq, ok := call.Call.Value.(*ssa.Call); ok && len(call.Call.Args) == 1 {
		if r, _ := ruleOf(&seq.Call); r != nil && r.yields {
			return firstParam(call.Call.Args[0])
		}
	}
	return nil
}

// firstParam returns the first parameter of v, or nil if v is not a function of this package.
func firstParam(v ssa.Value) ssa.Value {
	var f *ssa.Function
	switch v := v.(type) {
	case *ssa.MakeClosure:
		f = v.Fn.(*ssa.Function)
		if method, ok := boundMethod(v); ok {
			f = f.Prog.FuncValue(method)
		}
	case *ssa.Function:
		f = v
	}
	if f == nil || len(f.Blocks) == 0 {
		return nil
	}
	if f.Signature.Recv() != nil {
		return f.Params[1]
	}
	return f.Params[0]
}

// A keeper follows a lent slice to the places where it is stored.
type keeper struct {
	a        *flow
	f        *ssa.Function
	call     *ssa.Call // the call that lends the slice
	owner    loc
	peeked   bool      // the slice is valid until the next read
	callback bool      // the slice is valid until f returns
	kept     *paramUse // if not nil, report adds places to kept
	seen     map[ssa.Value]bool
}

// report reports a stored slice. If k.kept is not nil, it adds the place to k.kept instead.
func (k *keeper) report(pos token.Pos, how string, target ssa.Value) {
	switch {
	case k.kept != nil:
		k.kept.places = append(k.kept.places, place{how, target})
	case k.callback && strings.HasPrefix(k.f.Synthetic, "range-over-func"):
		k.a.reportf(pos, "a slice that is valid only in this iteration is %s; copy its bytes", how)
	case k.callback:
		k.a.reportf(pos, "a slice that is valid only during this call is %s; copy its bytes", how)
	case k.peeked:
		k.a.reportf(pos, "a slice that is valid only until the next read is %s; copy its bytes", how)
	default:
		k.a.reportf(pos, "a slice of %s, which this function releases, is %s; copy its bytes", k.owner,
			how)
	}
}

// follow visits the uses of v. If container is true, v contains the lent slice as an element or
// field.
func (k *keeper) follow(v ssa.Value, container bool) {
	if k.seen[v] {
		return
	}
	k.seen[v] = true
	for _, r := range referrers(v) {
		switch r := r.(type) {
		case *ssa.Slice, *ssa.ChangeType:
			k.follow(r.(ssa.Value), container)
		case *ssa.Field, *ssa.IndexAddr:
			k.followParts(r, v)
		case *ssa.Call:
			k.passed(r, v, container)
		case *ssa.Phi:
			if container && onlyEmptied(r) {
				continue
			} else if container && k.outlivesIteration(r) && k.mayEnd(r) {
				k.report(v.Pos(), "appended to a slice that is kept", nil)
			} else {
				k.follow(r, container)
			}
		case *ssa.Store:
			if r.Val == v {
				k.stored(r, container)
				if _, variable := r.Addr.(*ssa.Alloc); variable {
					k.followParts(r, v)
				}
			}
		case *ssa.MapUpdate:
			if r.Value == v && (k.isOutside(locate(r.Map)) || k.createdBeforeLoop(r.Map)) && k.mayEnd(r) {
				k.report(r.Pos(), "stored in a map", locate(r.Map).root)
			}
		case *ssa.Send:
			if r.X == v && k.mayEnd(r) {
				k.report(r.Pos(), "sent on a channel", nil)
			}
		case *ssa.Go:
			if k.mayEnd(r) && !k.waitsAfter(r) {
				k.report(r.Pos(), "passed to a goroutine", nil)
			}
		case *ssa.Return:
			if k.kept != nil && r.Parent() == k.f {
				for i, result := range r.Results {
					k.kept.results[i] = k.kept.results[i] || result == v
				}
			}
		}
	}
}

// onlyEmptied reports whether the program uses the slice v only as v[:0].
func onlyEmptied(v ssa.Value) bool {
	for _, r := range referrers(v) {
		s, ok := r.(*ssa.Slice)
		if !ok || s.High == nil {
			return false
		}
		if n, ok := s.High.(*ssa.Const); !ok || n.Int64() != 0 {
			return false
		}
	}
	return true
}

func (k *keeper) followParts(r ssa.Instruction, v ssa.Value) {
	for _, p := range k.a.parts(r, v) {
		k.follow(p, isContainer(p.Type()))
	}
}

func (k *keeper) passed(call *ssa.Call, v ssa.Value, container bool) {
	b, ok := call.Call.Value.(*ssa.Builtin)
	if ok {
		if b.Name() != "append" || len(call.Call.Args) != 2 {
			return
		}
		if container && call.Call.Args[1] == v || container && call.Call.Args[0] == v {
			k.follow(call, true)
		}
		return
	}
	k.followParts(call, v)
	fn := call.Call.StaticCallee()
	for n, arg := range call.Call.Args {
		if fn == nil || arg != v {
			continue
		}
		for _, p := range k.a.keptBy(fn, n).places {
			target := p.target
			if i := slices.IndexFunc(fn.Params, func(p *ssa.Parameter) bool { return p == target }); i >= 0 {
				l := locate(call.Call.Args[i])
				if target = l.root; !k.isOutside(l) || usedAgain(call, l) {
					continue
				}
			}
			if k.mayEnd(call) {
				k.report(call.Pos(), p.how, target)
			}
		}
	}
}

// usedAgain reports whether l is an argument of a later call.
func usedAgain(call *ssa.Call, l loc) bool {
	return slices.ContainsFunc(referrers(l.root), func(r ssa.Instruction) bool {
		c, ok := r.(ssa.CallInstruction)
		return ok && c != call && comesAfter(call, c) && slices.ContainsFunc(c.Common().Args,
			func(v ssa.Value) bool { return locate(v) == l })
	})
}

// isSliceOfSlices reports whether t is a slice of slices, or of structs with slices.
func isSliceOfSlices(t types.Type) bool {
	s, ok := t.Underlying().(*types.Slice)
	return ok && mayHoldSlice(s.Elem())
}

func (k *keeper) stored(s *ssa.Store, container bool) {
	switch addr := s.Addr.(type) {
	case *ssa.Global:
		if k.mayEnd(s) {
			k.report(s.Pos(), "stored in a package variable", nil)
		}
	case *ssa.FreeVar:
		switch v := k.variable(addr).(type) {
		case *ssa.FreeVar:
			if k.callback && readElsewhere(v) {
				k.report(s.Pos(), "stored outside of it", nil)
			}
		case *ssa.Alloc: // of k.f
			k.storedInVariable(s, v, container)
		}
	case *ssa.FieldAddr:
		if k.inLiteral(addr.X) {
			return
		}
		l := locate(addr)
		l.root = k.variable(l.root)
		if _, ok := l.root.(*ssa.Alloc); ok && (s.Parent() != k.f || !k.callback && !escapes(l.root)) {
			return
		}
		if root := k.owner.root; root != nil && root == l.root { // an object that has its own Reader
			if k.peeked && !container && s.Parent() == k.f {
				k.a.fieldStores = append(k.a.fieldStores, fieldStore{s, l, k.owner})
			}
			return
		}
		if k.callback && l.root.Parent() == k.f {
			if _, ok := l.root.(*ssa.Alloc); ok {
				return
			}
		}
		if k.mayEnd(s) && (k.kept == nil || container) { // a helper may fill a struct for one use
			k.report(s.Pos(), "stored in a field", l.root)
		}
	case *ssa.IndexAddr:
		if k.inLiteral(addr) {
			return
		}
		if (k.isOutside(locate(addr.X)) || k.createdBeforeLoop(addr.X)) && k.mayEnd(s) {
			k.report(s.Pos(), "stored in a slice", locate(addr.X).root)
		}
	case *ssa.Alloc:
		k.storedInVariable(s, addr, container)
	}
}

func (k *keeper) storedInVariable(s *ssa.Store, addr *ssa.Alloc, container bool) {
	if container && k.outlivesIteration(addr) {
		if !k.isReset(addr) && k.mayEnd(s) {
			k.report(s.Pos(), "appended to a slice that is kept", nil)
		}
		return
	}
	all := loads(addr)
	for _, load := range all {
		if isSliceOfSlices(load.Type()) && !slices.ContainsFunc(all, mayChange) &&
			(k.call == nil || comesAfter(k.call, load.(ssa.Instruction))) {
			k.follow(load, true)
		}
	}
	for _, r := range referrers(addr) { // a variable that a function literal captures
		m, ok := r.(*ssa.MakeClosure)
		if !ok {
			continue
		}
		for _, u := range referrers(m) {
			_, concurrent := u.(*ssa.Go)
			if c, ok := u.(*ssa.Call); ok {
				f, _ := callee(&c.Call)
				concurrent = f != nil && starters[f.Name()]
			}
			if !concurrent {
				k.follow(m, true)
			} else if k.mayEnd(u) && !k.waitsAfter(u) {
				k.report(s.Pos(), "used in a goroutine", nil)
			}
		}
	}
}

// isReset reports whether the loop resets the captured variable addr, as in words = words[:0].
func (k *keeper) isReset(addr *ssa.Alloc) bool {
	loop := innermost(k.call.Block())
	return slices.ContainsFunc(referrers(addr), func(r ssa.Instruction) bool {
		s, ok := r.(*ssa.Store)
		if ok {
			_, ok = s.Val.(*ssa.Call) // append
		}
		_, store := r.(*ssa.Store)
		return store && !ok && loop.has[r.Block()]
	})
}

// inLiteral reports whether addr is in a composite literal or in the arguments of append. In both
// cases, inLiteral also calls k.follow for the slice that contains addr.
func (k *keeper) inLiteral(addr ssa.Value) bool {
	switch addr := addr.(type) {
	case *ssa.FieldAddr:
		return k.inLiteral(addr.X)
	case *ssa.IndexAddr:
		array, ok := addr.X.(*ssa.Alloc)
		if !ok || array.Comment != "varargs" && array.Comment != "slicelit" {
			return false
		}
		for _, r := range referrers(array) { // the slice of the array
			if r, ok := r.(*ssa.Slice); ok {
				k.follow(r, true)
			}
		}
		return true
	case *ssa.Alloc:
		if addr.Comment == "complit" && addr.Heap {
			k.follow(addr, true)
			return true
		}
		t := addr.Type().(*types.Pointer).Elem().Underlying()
		if _, ok := t.(*types.Struct); !ok || escapes(addr) {
			return false
		}
		for _, r := range referrers(addr) {
			if u, ok := r.(*ssa.UnOp); ok {
				k.follow(u, true)
			}
		}
		return true
	}
	return false
}

// escapes reports whether the target of pointer v is used outside of its function.
func escapes(v ssa.Value) bool {
	for _, r := range referrers(v) {
		switch r := r.(type) {
		case *ssa.FieldAddr, *ssa.UnOp, *ssa.IndexAddr:
		case *ssa.Store:
			if r.Val == v {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// isOutside reports whether l belongs to code outside the analyzed function, such as its caller.
func (k *keeper) isOutside(l loc) bool {
	l.root = k.variable(l.root)
	switch l.root.(type) {
	case *ssa.Parameter, *ssa.Global:
		return l.root != k.owner.root
	case *ssa.FreeVar:
		return k.callback
	}
	return false
}

// If a loop body captures v from k.f, variable returns the captured variable of k.f. Otherwise, it
// returns v.
func (k *keeper) variable(v ssa.Value) ssa.Value {
	if fv, ok := v.(*ssa.FreeVar); ok && fv.Parent() != k.f {
		if outer, _ := binding(fv); outer != nil {
			return k.variable(outer)
		}
	}
	return v
}

// binding returns the variable that v captures, and the function literal that captures it.
func binding(v *ssa.FreeVar) (ssa.Value, *ssa.MakeClosure) {
	if outer := v.Parent().Parent(); outer != nil {
		for m := range instructions[*ssa.MakeClosure](outer) {
			if m.Fn == v.Parent() {
				return m.Bindings[slices.Index(v.Parent().FreeVars, v)], m
			}
		}
	}
	return nil, nil
}

// createdBeforeLoop reports whether v was created before the loop that contains k.call.
func (k *keeper) createdBeforeLoop(v ssa.Value) bool {
	i, ok := v.(ssa.Instruction)
	return ok && k.call != nil && k.outlivesIteration(i)
}

// outlivesIteration reports whether the value of i outlives an iteration of the loop around k.call.
func (k *keeper) outlivesIteration(i ssa.Instruction) bool {
	if k.call == nil || i.Parent() != k.call.Parent() {
		return false
	}
	loop := innermost(k.call.Block())
	if loop == nil {
		return false
	}
	if _, ok := i.(*ssa.Phi); ok {
		return i.Block() == loop.head || !loop.has[i.Block()]
	}
	return !loop.has[i.Block()]
}

// mayEnd reports whether the slice may become stale after the instruction i, in the function that
// contains i.
func (k *keeper) mayEnd(i ssa.Instruction) bool {
	if k.callback || k.peeked {
		return true
	}
	if _, ok := k.owner.root.(*ssa.Alloc); !ok || k.owner.path != "" {
		return false
	}
	for _, r := range referrers(k.owner.root) {
		if u, ok := r.(*ssa.UnOp); ok && ownerValue(u.Type()) {
			return false // the owner is kept as well
		}
	}
	for _, r := range referrers(k.owner.root) {
		c, ok := r.(ssa.CallInstruction)
		if !ok {
			continue
		}
		rule, args := ruleOf(c.Common())
		if rule == nil || !rule.releases && !rule.sends || args[0] != k.owner.root {
			continue
		}
		if _, deferred := r.(*ssa.Defer); deferred {
			return k.call == nil || innermost(k.call.Block()) == nil ||
				!isPhi(i)
		}
		if comesAfter(i, r) {
			return true
		}
	}
	return false
}

func isPhi(i ssa.Instruction) bool {
	_, ok := i.(*ssa.Phi)
	return ok
}

// comesAfter reports whether j may be executed after i in the same loop iteration.
func comesAfter(i, j ssa.Instruction) bool {
	if isPhi(i) {
		return true // i is at the start of the loop that contains j
	}
	found := false
	walkAfter(i, true, func(x ssa.Instruction) bool {
		found = found || x == j
		return found
	})
	return found
}

// waitsAfter reports whether the function waits for other goroutines after g in the same loop
// iteration. If g is in the body of a loop over an iterator, any wait in the enclosing function
// counts.
func (k *keeper) waitsAfter(g ssa.Instruction) bool {
	for f := g.Parent(); f != nil; f = f.Parent() {
		for i := range instructions[ssa.Instruction](f) {
			if waiting(i) && (f != g.Parent() ||
				comesAfter(g, i) && innermost(i.Block()) == innermost(g.Block())) {
				return true
			}
		}
		if f == k.f {
			break
		}
	}
	return false
}

// waiting reports whether i waits for another goroutine.
func waiting(i ssa.Instruction) bool {
	switch i := i.(type) {
	case *ssa.Select:
		return true
	case *ssa.UnOp:
		return i.Op == token.ARROW
	case *ssa.Call:
		f, _ := callee(&i.Call)
		return f != nil && waits[f.Name()]
	}
	return false
}

// readElsewhere reports whether code outside the function literal reads the captured variable v.
func readElsewhere(v *ssa.FreeVar) bool {
	outer, m := binding(v)
	if _, ok := outer.(*ssa.FreeVar); ok || outer == nil {
		return ok
	}
	return slices.ContainsFunc(referrers(outer), func(r ssa.Instruction) bool {
		_, load := r.(*ssa.UnOp)
		other, closure := r.(*ssa.MakeClosure)
		return load || closure && other != m
	})
}

type loop struct {
	head *ssa.BasicBlock
	has  map[*ssa.BasicBlock]bool
}

// innermost returns the smallest loop that contains block b, or nil.
func innermost(b *ssa.BasicBlock) *loop {
	var best *loop
	for _, head := range b.Parent().Blocks {
		if !head.Dominates(b) {
			continue
		}
		has := map[*ssa.BasicBlock]bool{head: true}
		var add func(x *ssa.BasicBlock)
		add = func(x *ssa.BasicBlock) {
			if !has[x] {
				has[x] = true
				for _, p := range x.Preds {
					add(p)
				}
			}
		}
		cycle := false
		for _, p := range head.Preds {
			if head.Dominates(p) {
				cycle = true
				add(p)
			}
		}
		if cycle && has[b] && (best == nil || len(has) < len(best.has)) {
			best = &loop{head, has}
		}
	}
	return best
}
