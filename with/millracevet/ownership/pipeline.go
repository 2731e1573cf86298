package ownership

import (
	"slices"

	"golang.org/x/tools/go/ssa"
)

// heldUntilExec reports calls that release an argument of a Pipeline before Exec.
func (a *flow) heldUntilExec() {
	for call := range instructions[*ssa.Call](a.fn) {
		if r, args := ruleOf(&call.Call); r != nil {
			for _, n := range r.keeps {
				a.heldArgument(call, locate(args[0]), args[n])
			}
		}
	}
}

func (a *flow) heldArgument(call *ssa.Call, pipeline loc, arg ssa.Value) {
	memory, found := locate(arg), false
	walkAfter(call, false, func(i ssa.Instruction) bool {
		if end, ok := i.(*ssa.Call); ok && a.endsLife(end, arg) {
			f, _ := callee(&end.Call)
			walkAfter(end, false, func(i ssa.Instruction) bool {
				if exec, ok := i.(*ssa.Call); ok && !found && executes(exec, pipeline, 0) {
					found = true
					what := "a slice"
					if memory.root != nil && typeName(memory.root.Type()) != "" {
						what = memory.String()
					}
					a.reportf(end.Pos(), "%s ends the life of %s, which the Pipeline uses until the Exec "+
						"at line %d", f.Name(), what, a.line(exec.Pos()))
				}
				return ends(i, pipeline)
			})
			return true
		}
		return ends(i, pipeline) || makes(i, memory)
	})
}

func (a *flow) endsLife(call *ssa.Call, arg ssa.Value) bool {
	r, args := ruleOf(&call.Call)
	if r == nil {
		return slices.ContainsFunc(a.derived[arg], func(v ssa.Value) bool {
			s := states{{root: v}: {bits: valid, link: a.lent[v].owner, peeked: a.lent[v].peeked}}
			if fn := localCallee(&call.Call); fn != nil {
				for n, arg := range call.Call.Args {
					a.lentArgument(s, fn, fn.Params[n], arg, call.Pos())
				}
			}
			return s[loc{root: v}].bits == stale
		})
	}
	is := func(n int, l loc) bool { return n < len(args) && args[n] != nil && locate(args[n]) == l }
	if l := locate(arg); (r.releases || r.sends) && is(0, l) ||
		slices.ContainsFunc(r.takes, func(n int) bool { return is(n, l) }) {
		return true
	}
	for _, lent := range a.derived[arg] {
		by := a.lent[lent]
		if (r.releases || r.sends || r.drops || r.reads && by.peeked) && is(0, by.owner) {
			return true
		}
	}
	return false
}

func ends(i ssa.Instruction, pipeline loc) bool {
	if makes(i, pipeline) {
		return true
	}
	call, ok := i.(*ssa.Call)
	if !ok {
		return false
	}
	r, _ := ruleOf(&call.Call)
	return r == nil && passes(call, pipeline) || executes(call, pipeline, 0)
}

func makes(i ssa.Instruction, l loc) bool {
	v, ok := i.(ssa.Value)
	return ok && v == l.root
}

// executes reports whether a call runs the Pipeline's Exec method, directly or through functions of
// this package.
func executes(call *ssa.Call, pipeline loc, depth int) bool {
	if f, _ := callee(&call.Call); f != nil && nameOf(f) == "redisbuf.Pipeline.Exec" {
		return passes(call, pipeline)
	}
	fn := localCallee(&call.Call)
	if fn == nil || depth > 3 {
		return false
	}
	for n, arg := range call.Call.Args {
		path, ok := pipeline.pathFrom(locate(arg))
		for inner := range instructions[*ssa.Call](fn) {
			if ok && executes(inner, loc{fn.Params[n], path}, depth+1) {
				return true
			}
		}
	}
	return false
}

func passes(call *ssa.Call, l loc) bool {
	return slices.ContainsFunc(call.Call.Args, func(v ssa.Value) bool { return locate(v) == l })
}

// walkAfter follows all paths of execution that start after the instruction i, and calls visit for
// each instruction. It leaves a path when visit returns true. If forward is true, it also leaves a
// path before a new loop iteration.
func walkAfter(i ssa.Instruction, forward bool, visit func(ssa.Instruction) bool) {
	seen := map[*ssa.BasicBlock]bool{}
	var block func(b *ssa.BasicBlock, from int)
	block = func(b *ssa.BasicBlock, from int) {
		if slices.ContainsFunc(b.Instrs[from:], visit) {
			return
		}
		for k, next := range b.Succs {
			if !seen[next] && !impossible(b, k) && !(forward && next.Dominates(b)) {
				seen[next] = true
				block(next, 0)
			}
		}
	}
	block(i.Block(), slices.Index(i.Block().Instrs, i)+1)
}
