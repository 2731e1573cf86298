package ownership

import (
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// parts returns the values that r makes from v and that share the memory of v, such as a subslice.
func (c *checker) parts(r ssa.Instruction, v ssa.Value) []ssa.Value {
	switch r := r.(type) {
	case *ssa.Slice:
		return []ssa.Value{r}
	case *ssa.ChangeType:
		return []ssa.Value{r}
	case *ssa.Phi:
		return []ssa.Value{r}
	case *ssa.Field:
		if mayHoldSlice(r.Type()) {
			return []ssa.Value{r}
		}
	case *ssa.IndexAddr:
		if isSliceOfSlices(v.Type()) && !mayChange(v) {
			return loads(r)
		}
	case *ssa.Store:
		if r.Val == v {
			return partOfStruct(r)
		}
	case *ssa.Call:
		if len(r.Call.Args) == 1 && r.Call.Value == v { // a loop over an iterator
			if p := firstParam(r.Call.Args[0]); p != nil {
				return []ssa.Value{p}
			}
		}
		return c.results(r, v)
	}
	return nil
}

// partOfStruct returns the values of the struct variable in which s stores a slice. It returns nil
// if the program may replace this slice.
func partOfStruct(s *ssa.Store) []ssa.Value {
	addr, field := s.Addr, -1
	if f, ok := addr.(*ssa.FieldAddr); ok {
		addr, field = f.X, f.Field
	}
	alloc, ok := addr.(*ssa.Alloc)
	if !ok {
		return nil
	}
	if _, ok := alloc.Type().(*types.Pointer).Elem().Underlying().(*types.Struct); !ok {
		return nil
	}
	var out []ssa.Value
	if alloc.Heap && alloc.Comment == "complit" {
		out = append(out, alloc)
	} else if escapes(alloc) {
		return nil
	}
	for _, r := range referrers(alloc) {
		f, ok := r.(*ssa.FieldAddr)
		if !ok || field >= 0 && f.Field != field || !mayHoldSlice(f.Type().(*types.Pointer).Elem()) {
			continue
		}
		for _, u := range referrers(f) {
			if other, ok := u.(*ssa.Store); ok && other != s {
				return nil // perhaps a copy
			}
		}
		out = append(out, loads(f)...)
	}
	return append(out, loads(alloc)...)
}

// results returns the results of a call that share the memory of argument v.
func (c *checker) results(call *ssa.Call, v ssa.Value) (out []ssa.Value) {
	fn := call.Call.StaticCallee()
	if fn == nil {
		return nil
	}
	f, _ := fn.Object().(*types.Func)
	alias := f != nil && f.Pkg() != nil && aliases[f.Pkg().Path()+"."+f.Name()]
	for n, arg := range call.Call.Args {
		if arg != v || alias && n > 0 {
			continue
		}
		shared := func(i int) bool { return alias || c.keptBy(fn, n).results[i] }
		if isSliceOfSlices(call.Type()) && mayChange(call) {
			continue
		}
		if _, tuple := call.Type().(*types.Tuple); !tuple && mayHoldSlice(call.Type()) && shared(0) {
			out = append(out, call)
		}
		for _, r := range referrers(call) {
			if e, ok := r.(*ssa.Extract); ok && mayHoldSlice(e.Type()) && shared(e.Index) {
				out = append(out, e)
			}
		}
	}
	return out
}

type paramOf struct {
	fn *ssa.Function
	n  int
}

// A paramUse lists where a function keeps a slice argument.
type paramUse struct {
	results map[int]bool // the numbers of the results that share the memory
	places  []place
}

// A place describes where a slice is stored. If the slice is stored in an object to which a
// parameter refers, target is this parameter.
type place struct {
	how    string
	target ssa.Value
}

// keptBy returns where fn keeps parameter number n.
func (c *checker) keptBy(fn *ssa.Function, n int) *paramUse {
	key := paramOf{fn, n}
	if known, ok := c.kept[key]; ok {
		return known
	}
	all := &paramUse{results: map[int]bool{}}
	c.kept[key] = all
	if len(fn.Blocks) > 0 && n < len(fn.Params) && mayHoldSlice(fn.Params[n].Type()) {
		k := keeper{a: &flow{checker: c, fn: fn}, f: fn, callback: true, kept: all,
			seen: map[ssa.Value]bool{}}
		k.follow(fn.Params[n], isContainer(fn.Params[n].Type()))
	}
	return all
}

// mayChange reports whether the program may replace elements of v.
func mayChange(v ssa.Value) bool {
	for _, r := range referrers(v) {
		switch r := r.(type) {
		case *ssa.IndexAddr:
			for _, u := range referrers(r) {
				_, load := u.(*ssa.UnOp)
				if f, ok := u.(*ssa.FieldAddr); !load && (!ok || len(loads(f)) < len(referrers(f))) {
					return true
				}
			}
		case *ssa.Call:
			if _, ok := r.Call.Value.(*ssa.Builtin); !ok {
				return true
			}
		}
	}
	return false
}

// mayHoldSlice reports whether a value of type t may refer to the memory of a slice.
func mayHoldSlice(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Slice, *types.Signature:
		return true
	case *types.Pointer:
		s, ok := u.Elem().Underlying().(*types.Struct)
		return ok && mayHoldSlice(s)
	case *types.Struct:
		for f := range u.Fields() {
			if _, ok := f.Type().Underlying().(*types.Slice); ok {
				return true
			}
		}
	}
	return false
}

// isContainer reports whether t is a type that has slices as elements or fields.
func isContainer(t types.Type) bool {
	s, ok := t.Underlying().(*types.Slice)
	return !ok && mayHoldSlice(t) || ok && isSliceOfSlices(s)
}

func loads(addr ssa.Value) (out []ssa.Value) {
	for _, r := range referrers(addr) {
		if u, ok := r.(*ssa.UnOp); ok {
			out = append(out, u)
		}
	}
	return out
}
