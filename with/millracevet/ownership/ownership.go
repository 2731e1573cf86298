// Package ownership defines an analyzer that finds mistakes in programs that use Millrace: memory
// that is never released or is used after its release, slices that are kept too long, and values
// that two goroutines use at the same time.
//
// The analyzer follows each local variable through its function, and through functions of the same
// package that get a pointer to the variable. If it cannot tell what happens to a variable, it
// reports nothing.
//
// The comments use these terms:
//
//   - An owner is a value that must be released, such as a millrace.Chain.
//   - A function gives an owner if the caller must release the result.
//   - A function takes an owner if it keeps the memory and leaves the owner empty.
//   - A function fills an owner if it adds memory to the owner.
//   - A method lends a slice if the slice is valid until the receiver is released.
//   - A peeked slice is a lent slice that is valid only until the next read.
//   - A stale slice is a lent slice that is no longer valid.
//   - A path is a possible sequence of instructions.
package ownership

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/buildssa"
	"golang.org/x/tools/go/ssa"
)

// Analyzer reports misuse of Millrace memory. The command millracevet runs it.
var Analyzer = &analysis.Analyzer{
	Name:     "ownership",
	Doc:      "report Millrace memory that is leaked, used after its release, or kept too long",
	URL:      "https://github.com/millrace-io/millrace/blob/main/docs/mistakes.md",
	Run:      run,
	Requires: []*analysis.Analyzer{buildssa.Analyzer},
}

var tests bool

func init() {
	Analyzer.Flags.BoolVar(&tests, "tests", true, "check _test.go files as well")
}

func run(pass *analysis.Pass) (any, error) {
	if !usesMillrace(pass.Pkg) {
		return nil, nil
	}
	c := &checker{pass: pass, reported: map[string]bool{}, leaked: map[token.Pos]bool{},
		summaries: map[question]bits{}, kept: map[paramOf]*paramUse{},
		lentResults: map[*ssa.Function][]lent{}}
	c.fns = pass.ResultOf[buildssa.Analyzer].(*buildssa.SSA).SrcFuncs
	for _, fn := range c.fns {
		if file := pass.Fset.Position(fn.Pos()).Filename; tests || !strings.HasSuffix(file, "_test.go") {
			c.check(fn)
		}
	}
	for _, s := range c.fieldStores {
		c.usedAfterRead(s)
	}
	return nil, nil
}

func usesMillrace(p *types.Package) bool {
	for _, imported := range append(p.Imports(), p) {
		o := types.NewTypeName(token.NoPos, imported, "T", nil)
		if nameOf(o) != "" {
			return true
		}
	}
	return false
}

type checker struct {
	pass      *analysis.Pass
	fns       []*ssa.Function
	reported  map[string]bool
	leaked    map[token.Pos]bool
	summaries map[question]bits // 0 marks an answer that is being computed

	kept        map[paramOf]*paramUse
	lentResults map[*ssa.Function][]lent
	fieldStores []fieldStore
	names       map[token.Pos][]ast.Expr // the left sides of assignments, by position
}

// A question is the key for an analysis of fn that starts with l in the state init.
type question struct {
	fn   *ssa.Function
	l    loc
	init state
}

func (c *checker) reportf(pos token.Pos, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if key := fmt.Sprint(pos, message); pos.IsValid() && !c.reported[key] {
		c.reported[key] = true
		c.pass.Reportf(pos, "%s", message)
	}
}

func (c *checker) line(pos token.Pos) int { return c.pass.Fset.Position(pos).Line }

func (c *checker) check(fn *ssa.Function) {
	if len(fn.Blocks) == 0 {
		return
	}
	a := newFlow(c, fn)
	a.solve(nil)
	a.solve(nil) // again, with the a.ended that the first pass has filled
	a.report()
	a.keptSlices()
	a.heldUntilExec()
}

func (c *checker) after(fn *ssa.Function, v ssa.Value, init bits) bits {
	return c.stateAfter(fn, loc{root: v}, state{bits: init})
}

// stateAfter returns the possible states of l when fn returns. The root of l must be a parameter or
// captured variable of fn.
func (c *checker) stateAfter(fn *ssa.Function, l loc, init state) bits {
	q := question{fn, l, init}
	if answer, ok := c.summaries[q]; ok {
		if answer == 0 {
			return unknown
		}
		return answer
	}
	c.summaries[q] = 0
	answer := unknown
	if len(fn.Blocks) > 0 {
		a := newFlow(c, fn)
		a.solve(states{l: init})
		answer = 0
		for _, b := range fn.Blocks {
			if _, ok := b.Instrs[len(b.Instrs)-1].(*ssa.Return); ok && a.in[b] != nil {
				s := a.out(b)[l]
				if s.deferRelease {
					s.bits = released
				} else if s.deferred || s.bits == 0 {
					s.bits = unknown
				}
				answer |= s.bits
			}
		}
		if answer == 0 || a.aliased(l.root) {
			answer = unknown
		}
	}
	c.summaries[q] = answer
	return answer
}
