// Package ownership defines an analyzer that finds mistakes in programs that use Millrace: memory
// that is never released, memory that is used after its release, slices that are kept longer than
// they are valid, and values that two goroutines use at the same time.
//
// The analyzer follows local variables through one function at a time, and through the functions of
// the same package that get a pointer to such a variable. When it cannot tell what happens to a
// variable, it reports nothing.
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

// Analyzer is the analyzer. The command millracevet runs it.
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
		summaries: map[question]bits{}, partResults: map[paramOf]map[int]bool{}}
	for _, fn := range pass.ResultOf[buildssa.Analyzer].(*buildssa.SSA).SrcFuncs {
		if file := pass.Fset.Position(fn.Pos()).Filename; tests || !strings.HasSuffix(file, "_test.go") {
			c.check(fn)
		}
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
	reported  map[string]bool
	leaked    map[token.Pos]bool
	summaries map[question]bits // 0 while the answer is being computed

	partResults map[paramOf]map[int]bool
	names       map[token.Pos][]ast.Expr // see variableName
}

// A question asks for the state of v when fn returns, if the state is init at the start of fn. The
// value v is a parameter or captured variable of fn.
type question struct {
	fn   *ssa.Function
	v    ssa.Value
	init bits
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
	a.solve(nil) // again, because the first run completes a.ended
	a.report()
	a.keptSlices()
	a.heldUntilExec()
}

// after returns the possible states of v when fn returns, if the state is init at the start of fn.
// The value v is a parameter or captured variable of fn, and is an owner or a pointer to an owner.
func (c *checker) after(fn *ssa.Function, v ssa.Value, init bits) bits {
	q := question{fn, v, init}
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
		l := loc{root: v}
		a.solve(states{l: {bits: init}})
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
		if answer == 0 || a.aliased(v) {
			answer = unknown
		}
	}
	c.summaries[q] = answer
	return answer
}
