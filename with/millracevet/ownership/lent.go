package ownership

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// A lent is a slice that a call lends.
type lent struct {
	v      ssa.Value // the result of the call
	result int
	owner  loc
	peeked bool // the slice is valid only until the next read
}

// lentBy returns the slices that a call lends, directly or through a function of this package.
func (c *checker) lentBy(call *ssa.Call) (out []lent) {
	if r, args := ruleOf(&call.Call); r != nil && (r.lends || r.peeks) {
		if v := resultAt(call, 0); v != nil {
			out = append(out, lent{v, 0, locate(args[0]), r.peeks})
		}
	} else if fn := localCallee(&call.Call); r == nil && fn != nil {
		for _, l := range c.lentResultsOf(fn) {
			n := slices.IndexFunc(fn.Params, func(p *ssa.Parameter) bool { return p == l.owner.root })
			owner := locate(call.Call.Args[n])
			if v := resultAt(call, l.result); v != nil {
				out = append(out, lent{v, l.result, loc{owner.root, owner.path + l.owner.path}, l.peeked})
			}
		}
	}
	return out
}

// lentResultsOf returns the results of fn that are slices from a parameter, or from a field of a
// parameter. For each of these results, every return statement returns nil or a slice of the same
// owner.
func (c *checker) lentResultsOf(fn *ssa.Function) []lent {
	if known, ok := c.lentResults[fn]; ok {
		return known
	}
	c.lentResults[fn] = nil
	a := newFlow(c, fn)
	if len(a.lent) == 0 {
		return nil
	}
	var out []lent
	for i := range fn.Signature.Results().Len() {
		found, same := lent{}, true
		for ret := range instructions[*ssa.Return](fn) {
			l, lends := a.origin(ret.Results[i], nil)
			l.v, l.result = nil, i
			if isNil(ret.Results[i]) {
				continue
			}
			_, param := l.owner.root.(*ssa.Parameter)
			same = same && lends && param && (found.owner.root == nil || found == l)
			found = l
		}
		if same && found.owner.root != nil {
			out = append(out, found)
		}
	}
	c.lentResults[fn] = out
	return out
}

// origin returns the lent slice that contains v. If v may belong to different owners, ok is false.
func (a *flow) origin(v ssa.Value, seen []ssa.Value) (found lent, ok bool) {
	if phi, isPhi := v.(*ssa.Phi); isPhi && !slices.Contains(seen, v) {
		for _, e := range phi.Edges {
			if isNil(e) || slices.Contains(append(seen, v), e) {
				continue
			}
			l, lends := a.origin(e, append(seen, v))
			if !lends || ok && (l.owner != found.owner || l.peeked != found.peeked) {
				return lent{}, false
			}
			found, ok = l, true
		}
		return found, ok
	}
	if from := a.derived[v]; len(from) == 1 && !isContainer(v.Type()) {
		found, ok = a.lent[from[0]]
	}
	return found, ok
}

// A fieldStore assigns a peeked slice to a field of the object that contains the slice's owner.
type fieldStore struct {
	store        *ssa.Store
	field, owner loc
}

// storeLent updates the state of a field to which v is assigned.
func (a *flow) storeLent(s states, to loc, v ssa.Value) {
	if to.path == "" {
		return
	}
	if s[to].bits&(valid|stale) != 0 {
		delete(s, to)
	}
	if l, ok := a.origin(v, nil); ok && l.peeked && l.owner.root == to.root {
		if s[loc{root: a.derived[v][0]}].bits == valid {
			s[to] = state{bits: valid, link: l.owner, peeked: true}
		}
	}
}

// usedAfterRead adds a diagnostic for the store f if a function of the package uses the stored
// slice after it has read from the owner.
func (c *checker) usedAfterRead(f fieldStore) {
	param, ok := f.field.root.(*ssa.Parameter)
	if !ok {
		return
	}
	for _, fn := range c.fns {
		for _, p := range fn.Params {
			if !types.Identical(p.Type(), param.Type()) {
				continue
			}
			a := newFlow(c, fn)
			a.solve(states{{p, f.field.path}: {bits: valid, link: loc{p, f.owner.path}, peeked: true}})
			a.field = loc{p, f.field.path}
			for _, b := range fn.Blocks {
				if a.in[b] != nil {
					a.out(b)
				}
			}
			if a.staleLoad.IsValid() {
				c.reportf(f.store.Pos(), "a slice that is valid only until the next read is stored in a "+
					"field, which line %d uses after a read; copy its bytes", c.line(a.staleLoad))
				return
			}
		}
	}
}

// usesElements reports whether the program may use the elements of v.
func usesElements(v ssa.Value) bool {
	for _, r := range referrers(v) {
		switch r := r.(type) {
		case *ssa.BinOp:
			continue
		case *ssa.Call:
			if b, ok := r.Call.Value.(*ssa.Builtin); ok && b.Name() != "append" && b.Name() != "copy" {
				continue
			}
		}
		return true
	}
	return false
}

// callAfter returns the position of the first call after i in the same block.
func callAfter(i ssa.Instruction) token.Pos {
	instrs := i.Block().Instrs
	for _, next := range instrs[slices.Index(instrs, i):] {
		if c, ok := next.(ssa.CallInstruction); ok {
			return c.Pos()
		}
	}
	return token.NoPos
}
