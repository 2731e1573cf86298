package ownership

import (
	"slices"

	"golang.org/x/tools/go/ssa"
)

// heldUntilExec reports calls that end the life of memory that a Pipeline borrows. When a program
// queues a command with such memory, the memory must stay valid until the Exec.
func (a *flow) heldUntilExec() {
	for _, b := range a.fn.Blocks {
		for _, i := range b.Instrs {
			call, ok := i.(*ssa.Call)
			if !ok {
				continue
			}
			if r, args := ruleOf(&call.Call); r != nil {
				for _, n := range r.keeps {
					a.heldArgument(call, locate(args[0]), args[n])
				}
			}
		}
	}
}

func (a *flow) heldArgument(call *ssa.Call, pipeline loc, arg ssa.Value) {
	memory := locate(arg)
	search(call, func(i ssa.Instruction) bool {
		if end, ok := i.(*ssa.Call); ok && a.endsLife(end, arg) {
			f, _ := callee(&end.Call)
			search(end, func(i ssa.Instruction) bool {
				if exec, ok := i.(*ssa.Call); ok && executes(exec) && passes(exec, pipeline) {
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

// endsLife reports whether a call ends the life of arg, a pointer to a Chain or a lent slice.
func (a *flow) endsLife(call *ssa.Call, arg ssa.Value) bool {
	r, args := ruleOf(&call.Call)
	if r == nil {
		return false
	}
	is := func(n int, l loc) bool { return n < len(args) && args[n] != nil && locate(args[n]) == l }
	if l := locate(arg); (r.releases || r.sends) && is(0, l) ||
		slices.ContainsFunc(r.takes, func(n int) bool { return is(n, l) }) {
		return true
	}
	for _, lent := range a.derived[arg] {
		if e, ok := lent.(*ssa.Extract); ok {
			lent = e.Tuple
		}
		by, lenders := ruleOf(&lent.(*ssa.Call).Call)
		if (r.releases || r.sends || r.drops || r.reads && by.peeks) && is(0, locate(lenders[0])) {
			return true
		}
	}
	return false
}

// ends reports whether instruction i executes the queued commands of a Pipeline or makes a new
// Pipeline, or may do so.
func ends(i ssa.Instruction, pipeline loc) bool {
	if makes(i, pipeline) {
		return true
	}
	call, ok := i.(*ssa.Call)
	if !ok || !passes(call, pipeline) {
		return false
	}
	r, _ := ruleOf(&call.Call)
	return r == nil || executes(call)
}

func makes(i ssa.Instruction, l loc) bool {
	v, ok := i.(ssa.Value)
	return ok && v == l.root
}

func executes(call *ssa.Call) bool {
	f, _ := callee(&call.Call)
	return f != nil && nameOf(f) == "redisbuf.Pipeline.Exec"
}

func passes(call *ssa.Call, l loc) bool {
	return slices.ContainsFunc(call.Call.Args, func(v ssa.Value) bool { return locate(v) == l })
}

// search calls visit for the instructions that may follow i. If visit returns true for an
// instruction, search does not continue after it.
func search(i ssa.Instruction, visit func(ssa.Instruction) bool) {
	seen := map[*ssa.BasicBlock]bool{}
	var block func(b *ssa.BasicBlock, from int)
	block = func(b *ssa.BasicBlock, from int) {
		for _, i := range b.Instrs[from:] {
			if visit(i) {
				return
			}
		}
		for k, next := range b.Succs {
			if !seen[next] && !impossible(b, k) {
				seen[next] = true
				block(next, 0)
			}
		}
	}
	block(i.Block(), slices.Index(i.Block().Instrs, i)+1)
}
