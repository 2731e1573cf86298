package ownership

import (
	"cmp"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// staleOperands reports operands of instruction i that are lent slices and are no longer valid.
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
	default:
		return
	}
	for _, op := range i.Operands(nil) {
		if *op == nil || isContainer((*op).Type()) && typeName((*op).Type()) == "" {
			continue // the slices in it may have been replaced
		}
		for _, lent := range a.derived[*op] {
			if st := s[loc{root: lent}]; st.bits == stale {
				what := cmp.Or(a.variableName(*op), a.variableName(lent))
				if what == "" {
					what = "a slice that"
				} else {
					what += ", which"
				}
				pos := i.Pos()
				if !pos.IsValid() {
					pos = (*op).Pos()
				}
				a.reportf(pos, "use of %s is valid only until the call at line %d; copy its bytes or "+
					"read it again", what, a.line(st.ended))
			}
		}
	}
}

// returnLent reports a lent slice in a return statement if a deferred call releases the memory of
// the slice.
func (a *flow) returnLent(s states, r *ssa.Return) {
	if !a.reporting {
		return
	}
	for _, v := range r.Results {
		for _, lent := range a.derived[stored(v)] {
			owner := s[loc{root: lent}].link
			if owner.local() && s[owner].deferRelease {
				a.reportf(r.Pos(), "a slice of %s is returned, but the deferred %s ends its life",
					owner, releaseOf(owner))
			}
		}
	}
}

// keptSlices reports lent slices that the function stores where they outlive their memory.
func (a *flow) keptSlices() {
	for _, b := range a.fn.Blocks {
		for _, i := range b.Instrs {
			call, ok := i.(*ssa.Call)
			if !ok {
				continue
			}
			if p := lentParam(call); p != nil {
				w := keeper{a: a, f: p.Parent(), callback: true, seen: map[ssa.Value]bool{}}
				w.follow(p, false)
			}
			v := lentBy(call)
			if v == nil {
				continue
			}
			r, args := ruleOf(&call.Call)
			if _, isSlice := v.Type().Underlying().(*types.Slice); !isSlice {
				continue
			}
			w := keeper{a: a, f: a.fn, call: call, owner: locate(args[0]), peeked: r.peeks,
				seen: map[ssa.Value]bool{}}
			w.follow(v, false)
		}
	}
}

// lentParam returns the parameter that receives the slices, if a call passes lent slices to a
// function of the analyzed package. Otherwise it returns nil.
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

// firstParam returns the first parameter of v, if v is a function literal, a function or a method
// value of the analyzed package. Otherwise it returns nil.
func firstParam(v ssa.Value) ssa.Value {
	var f *ssa.Function
	switch v := v.(type) {
	case *ssa.MakeClosure:
		f = v.Fn.(*ssa.Function)
		if method, ok := bound(v); ok {
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
	peeked   bool // the slice is valid until the next read
	callback bool // the slice is valid until f returns
	seen     map[ssa.Value]bool
}

func (k *keeper) report(pos token.Pos, how string) {
	switch {
	case k.callback:
		k.a.reportf(pos, "a slice that is valid only during this call is %s; copy its bytes", how)
	case k.peeked:
		k.a.reportf(pos, "a slice that is valid only until the next read is %s; copy its bytes", how)
	default:
		k.a.reportf(pos, "a slice of %s, which this function releases, is %s; copy its bytes", k.owner,
			how)
	}
}

// follow visits the uses of v, which is the lent slice or a part of it. If container is true, v
// instead contains the lent slice, for example as an element.
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
			if container && emptied(r) {
				continue
			} else if container && k.outlivesIteration(r) && k.ends(r) {
				k.report(v.Pos(), "appended to a slice that is kept")
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
			if r.Value == v && (k.far(locate(r.Map)) || k.made(r.Map)) && k.ends(r) {
				k.report(r.Pos(), "stored in a map")
			}
		case *ssa.Send:
			if r.X == v && k.ends(r) {
				k.report(r.Pos(), "sent on a channel")
			}
		case *ssa.Go:
			if k.ends(r) && !k.joined(r) {
				k.report(r.Pos(), "passed to a goroutine")
			}
		}
	}
}

// emptied reports whether the program uses the slice v only as v[:0].
func emptied(v ssa.Value) bool {
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
}

func isSliceOfSlices(t types.Type) bool {
	s, ok := t.Underlying().(*types.Slice)
	if ok {
		_, ok = s.Elem().Underlying().(*types.Slice)
	}
	return ok
}

func (k *keeper) stored(s *ssa.Store, container bool) {
	switch addr := s.Addr.(type) {
	case *ssa.Global:
		if k.ends(s) {
			k.report(s.Pos(), "stored in a package variable")
		}
	case *ssa.FreeVar:
		v, ok := k.variable(addr).(*ssa.FreeVar)
		if ok && k.callback && readElsewhere(k.f, v) {
			k.report(s.Pos(), "stored outside of it")
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
		if root := k.owner.root; root != nil && root == l.root {
			return // the owner is in the same object as the field
		}
		if k.callback && l.root.Parent() == k.f {
			if _, ok := l.root.(*ssa.Alloc); ok {
				return
			}
		}
		if k.ends(s) {
			k.report(s.Pos(), "stored in a field")
		}
	case *ssa.IndexAddr:
		if k.inLiteral(addr) {
			return
		}
		if (k.far(locate(addr.X)) || k.made(addr.X)) && k.ends(s) {
			k.report(s.Pos(), "stored in a slice")
		}
	case *ssa.Alloc:
		if container && k.call != nil && k.outlivesIteration(addr) && k.ends(s) {
			k.report(s.Pos(), "appended to a slice that is kept")
			return
		}
		for _, r := range referrers(addr) { // a function literal may capture the variable
			m, ok := r.(*ssa.MakeClosure)
			if !ok {
				continue
			}
			for _, u := range referrers(m) {
				_, concurrent := u.(*ssa.Go)
				if c, ok := u.(*ssa.Call); ok {
					f, _ := callee(&c.Call)
					concurrent = f != nil && starts[f.Name()]
				}
				if !concurrent {
					k.follow(m, true)
				} else if k.ends(u) && !k.joined(u) {
					k.report(s.Pos(), "used in a goroutine")
				}
			}
		}
	}
}

// inLiteral reports whether addr is in a composite literal or in the argument list of append. If
// so, it follows the literal or the list.
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

// escapes reports whether code outside of the function may use the target of the pointer v.
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

// far reports whether l belongs to the caller or to the enclosing function, not to the function
// itself.
func (k *keeper) far(l loc) bool {
	l.root = k.variable(l.root)
	switch l.root.(type) {
	case *ssa.Parameter, *ssa.Global:
		return l.root != k.owner.root
	case *ssa.FreeVar:
		return k.callback
	}
	return false
}

// variable returns the variable of k.f that v stands for. If the loop body of an iterator has
// captured v from k.f, this is the variable that it has captured. Otherwise it is v itself.
func (k *keeper) variable(v ssa.Value) ssa.Value {
	fv, ok := v.(*ssa.FreeVar)
	if !ok || fv.Parent() == k.f {
		return v
	}
	for i, other := range fv.Parent().FreeVars {
		if other != fv || fv.Parent().Parent() == nil {
			continue
		}
		for _, b := range fv.Parent().Parent().Blocks {
			for _, instr := range b.Instrs {
				if m, ok := instr.(*ssa.MakeClosure); ok && m.Fn == fv.Parent() {
					return k.variable(m.Bindings[i])
				}
			}
		}
	}
	return v
}

// made reports whether v, a map or slice, was made before the loop in which k.call lends the slice.
func (k *keeper) made(v ssa.Value) bool {
	i, ok := v.(ssa.Instruction)
	return ok && k.call != nil && k.outlivesIteration(i)
}

// outlivesIteration reports whether the value of i outlives an iteration of the loop in which
// k.call lends the slice: i is outside of the loop, or is a phi instruction at the start of the
// loop.
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

// ends reports whether the slice becomes invalid after instruction i has stored it, at the latest
// when the function returns. The next read may end the life of the slice, or the function may
// release the owner after i or with a deferred call.
func (k *keeper) ends(i ssa.Instruction) bool {
	if k.callback || k.peeked {
		return true
	}
	if _, ok := k.owner.root.(*ssa.Alloc); !ok || k.owner.path != "" {
		return false
	}
	for _, r := range referrers(k.owner.root) {
		if u, ok := r.(*ssa.UnOp); ok && ownerValue(u.Type()) {
			return false // the owner is copied, and may be kept as well
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

// comesAfter reports whether instruction j may be executed after instruction i in the same
// iteration of the loop around i.
func comesAfter(i, j ssa.Instruction) bool {
	if isPhi(i) {
		return true // at the start of the loop in which j is
	}
	if i.Block() == j.Block() {
		for _, x := range i.Block().Instrs {
			if x == i {
				return true
			}
			if x == j {
				return false
			}
		}
	}
	seen := map[*ssa.BasicBlock]bool{}
	var visit func(b *ssa.BasicBlock) bool
	visit = func(b *ssa.BasicBlock) bool {
		for _, next := range b.Succs {
			if seen[next] || next.Dominates(b) {
				continue
			}
			seen[next] = true
			if next == j.Block() || visit(next) {
				return true
			}
		}
		return false
	}
	return visit(i.Block())
}

// joined reports whether the function waits for other goroutines after instruction g has started
// one, in the same iteration of a loop. If g is in the body of a loop over an iterator, the wait
// may be anywhere in the enclosing function.
func (k *keeper) joined(g ssa.Instruction) bool {
	for f := g.Parent(); f != nil; f = f.Parent() {
		for _, b := range f.Blocks {
			for _, i := range b.Instrs {
				if waiting(i) && (f != g.Parent() ||
					comesAfter(g, i) && innermost(i.Block()) == innermost(g.Block())) {
					return true
				}
			}
		}
		if f == k.f {
			break
		}
	}
	return false
}

// waiting reports whether instruction i waits for another goroutine.
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

// readElsewhere reports whether code outside of fn reads the variable that fn has captured as v.
func readElsewhere(fn *ssa.Function, v *ssa.FreeVar) bool {
	for i, fv := range fn.FreeVars {
		if fv != v {
			continue
		}
		for _, b := range fn.Parent().Blocks {
			for _, instr := range b.Instrs {
				m, ok := instr.(*ssa.MakeClosure)
				if !ok || m.Fn != fn {
					continue
				}
				outer := m.Bindings[i]
				if _, ok := outer.(*ssa.FreeVar); ok {
					return true
				}
				for _, r := range referrers(outer) {
					switch r := r.(type) {
					case *ssa.UnOp:
						return true
					case *ssa.MakeClosure:
						if r != m {
							return true
						}
					}
				}
			}
		}
	}
	return false
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
