package ownership

import (
	"fmt"
	"go/token"
	"go/types"
	"iter"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// A loc identifies a variable, a field or the target of a pointer. The root is an instruction or
// parameter. The path leads from the root through fields (.2), elements ([0]) and pointers (*).
type loc struct {
	root ssa.Value
	path string
}

// locate returns the location that pointer v points to.
func locate(v ssa.Value) loc {
	switch v := v.(type) {
	case *ssa.FieldAddr:
		l := locate(v.X)
		return loc{l.root, fmt.Sprintf("%s.%d", l.path, v.Field)}
	case *ssa.UnOp:
		if v.Op == token.MUL {
			switch v.X.(type) {
			case *ssa.FieldAddr, *ssa.Alloc, *ssa.FreeVar, *ssa.Global:
				l := locate(v.X)
				return loc{l.root, l.path + "*"}
			}
		}
	case *ssa.IndexAddr:
		if i, ok := v.Index.(*ssa.Const); ok {
			l := locate(v.X)
			return loc{l.root, fmt.Sprintf("%s[%d]", l.path, i.Int64())}
		}
	case *ssa.ChangeType:
		return locate(v.X)
	}
	return loc{root: v}
}

// pathFrom returns the path from outer to l. It returns false if outer does not contain l.
func (l loc) pathFrom(outer loc) (path string, ok bool) {
	path, ok = strings.CutPrefix(l.path, outer.path)
	ok = ok && l.root == outer.root && l.root != nil
	return path, ok && (path == "" || strings.ContainsRune(".*[!", rune(path[0])))
}

// isLocal reports whether l is a local variable, or the target of a pointer that a call returned.
func (l loc) isLocal() bool {
	switch l.root.(type) {
	case *ssa.Alloc, *ssa.Call, *ssa.Extract:
		return l.path == ""
	}
	return false
}

// String returns a name for messages.
func (l loc) String() string {
	switch v := l.root.(type) {
	case *ssa.Alloc:
		unnamed := v.Comment == "" || v.Comment == "new" || v.Comment == "complit"
		if (l.path == "" || l.path == "*") && !unnamed {
			return v.Comment
		}
	case *ssa.Parameter, *ssa.FreeVar, *ssa.Global:
		if l.path == "" || l.path == "*" {
			return v.Name()
		}
	}
	t := l.root.Type()
	if p, ok := t.Underlying().(*types.Pointer); ok && l.path == "" {
		t = p.Elem()
	}
	if name := typeName(t); l.path == "" && name != "" {
		return "the " + name
	}
	return "it"
}

// definedIn returns the block that creates the root of l. For a parameter, it returns nil.
func (l loc) definedIn() *ssa.BasicBlock {
	if i, ok := l.root.(ssa.Instruction); ok {
		return i.Block()
	}
	return nil
}

// instructions yields the instructions of fn that have the type I.
func instructions[I ssa.Instruction](fn *ssa.Function) iter.Seq[I] {
	return func(yield func(I) bool) {
		for _, b := range fn.Blocks {
			for _, i := range b.Instrs {
				if i, ok := i.(I); ok && !yield(i) {
					return
				}
			}
		}
	}
}

// referrers returns the instructions that use v, except debug references.
func referrers(v ssa.Value) []ssa.Instruction {
	var out []ssa.Instruction
	if v.Referrers() != nil {
		for _, r := range *v.Referrers() {
			if _, debug := r.(*ssa.DebugRef); !debug {
				out = append(out, r)
			}
		}
	}
	return out
}

// callee returns the function that c calls, or nil if it is unknown. For a method value or an
// interface, it also returns the receiver.
func callee(c *ssa.CallCommon) (f *types.Func, recv ssa.Value) {
	if c.IsInvoke() {
		return c.Method, c.Value
	}
	if m, ok := c.Value.(*ssa.MakeClosure); ok {
		if f, ok := boundMethod(m); ok {
			return f, m.Bindings[0]
		}
		return nil, nil
	}
	if fn := c.StaticCallee(); fn != nil {
		if o := fn.Origin(); o != nil {
			fn = o
		}
		f, _ := fn.Object().(*types.Func)
		return f, nil
	}
	return nil, nil
}

// boundMethod returns the method if m is a method value, such as r.Release.
func boundMethod(m *ssa.MakeClosure) (*types.Func, bool) {
	fn := m.Fn.(*ssa.Function)
	if fn.Synthetic == "" || len(m.Bindings) != 1 || fn.Object() == nil {
		return nil, false
	}
	f, ok := fn.Object().(*types.Func)
	return f, ok
}

// ruleOf returns the rule for the called function, or nil. It also returns the arguments. The
// receiver has index 0. If the function has no receiver, the first argument is nil.
func ruleOf(c *ssa.CallCommon) (*rule, []ssa.Value) {
	f, recv := callee(c)
	if f == nil {
		return nil, nil
	}
	args := c.Args
	if recv != nil {
		args = append([]ssa.Value{recv}, args...)
	} else if f.Signature().Recv() == nil {
		args = append([]ssa.Value{nil}, args...)
	}
	return rules[nameOf(f)], args
}

// errorOf returns the error result of a call, or nil if there is none or it is not used.
func errorOf(call *ssa.Call) ssa.Value {
	results := call.Call.Signature().Results()
	n := results.Len()
	if n == 0 || !isError(results.At(n-1).Type()) {
		return nil
	}
	return resultAt(call, n-1)
}

// ignoresError reports whether the program ignores a call's error result.
func ignoresError(call *ssa.Call) bool {
	results := call.Call.Signature().Results()
	n := results.Len()
	if n == 0 || !isError(results.At(n-1).Type()) {
		return false
	}
	err := errorOf(call)
	return err == nil || len(referrers(err)) == 0
}

func isError(t types.Type) bool { return types.Identical(t, types.Universe.Lookup("error").Type()) }

// localCallee returns the function of this package that c calls, or nil.
func localCallee(c *ssa.CallCommon) *ssa.Function {
	if fn := c.StaticCallee(); fn != nil && len(fn.Blocks) > 0 {
		return fn
	}
	return nil
}

// resultAt returns result number i of a call, or nil if the result is not used.
func resultAt(call *ssa.Call, i int) ssa.Value {
	if call.Call.Signature().Results().Len() == 1 {
		return call
	}
	return extract(call, i)
}

func extract(tuple ssa.Value, i int) ssa.Value {
	for _, r := range referrers(tuple) {
		if e, ok := r.(*ssa.Extract); ok && e.Index == i {
			return e
		}
	}
	return nil
}

// storedValue returns the value that v loads, if an earlier instruction in the same block stores
// this value. Otherwise, it returns v.
func storedValue(v ssa.Value) ssa.Value {
	load, ok := v.(*ssa.UnOp)
	if !ok || load.Op != token.MUL {
		return v
	}
	var last ssa.Value = v
	for _, i := range load.Block().Instrs {
		if i == ssa.Instruction(load) {
			break
		}
		if s, ok := i.(*ssa.Store); ok && s.Addr == load.X {
			last = s.Val
		}
	}
	return last
}
