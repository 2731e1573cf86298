package ownership

import (
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// shareKey returns the loc of the value that v points to, directly or through a pointer variable.
// It returns false if any number of goroutines may use the value.
func shareKey(v ssa.Value) (loc, bool) {
	l := locate(v)
	t := v.Type()
	if p, ok := t.Underlying().(*types.Pointer); ok {
		if _, ok := p.Elem().Underlying().(*types.Pointer); ok {
			l.path += "*"
			t = p.Elem()
		}
	}
	_, pointer := t.Underlying().(*types.Pointer)
	return l, pointer && singles[typeName(t)]
}

// share records that another goroutine uses the target of v from now on.
func (a *flow) share(s states, v ssa.Value, pos token.Pos) {
	l, ok := shareKey(v)
	if !ok {
		return
	}
	st, known := s[l]
	if !known {
		st.bits = unknown
	}
	if st.shared && st.sharedAt == pos && a.reporting {
		a.reportf(pos, "two goroutines use %s at the same time: the loop starts both here", l)
	} else if st.shared && a.reporting {
		a.reportf(pos, "two goroutines use %s at the same time: this one and the one started at line %d",
			l, a.line(st.sharedAt))
	}
	st.shared, st.sharedAt = true, pos
	s[l] = st
}

// sharedUse reports a use of the target of v if another goroutine uses the target at the same time.
func (a *flow) sharedUse(s states, v ssa.Value, pos token.Pos) {
	if v == nil {
		return
	}
	l, ok := shareKey(v)
	if st := s[l]; ok && st.shared && a.reporting {
		a.reportf(pos, "two goroutines use %s at the same time: this one and the one started at line %d",
			l, a.line(st.sharedAt))
	}
}

// unshare records that the other goroutines may have ended or may be waiting, so that they no
// longer share a value with the function.
func unshare(s states) {
	for l, st := range s {
		if st.shared {
			st.shared = false
			s[l] = st
			if st.bits&unknown != 0 {
				delete(s, l)
			}
		}
	}
}

// usesAlone reports whether fn calls a method of the captured variable v, and does not wait for
// other goroutines.
func usesAlone(fn *ssa.Function, v *ssa.FreeVar) bool {
	key, ok := shareKey(v)
	uses := false
	for _, b := range fn.Blocks {
		for _, i := range b.Instrs {
			switch i := i.(type) {
			case *ssa.Select:
				return false
			case *ssa.UnOp:
				if i.Op == token.ARROW {
					return false
				}
			case *ssa.Call:
				if f, _ := callee(&i.Call); f != nil && waits[f.Name()] {
					return false
				}
				if r, args := ruleOf(&i.Call); r != nil {
					for _, arg := range args {
						if arg != nil {
							uses = uses || locate(arg) == key
						}
					}
				}
			}
		}
	}
	return ok && uses
}

// failsTest reports whether f is a method of testing.T that fails or skips the test.
func failsTest(f *types.Func) bool {
	return f != nil && f.Pkg() != nil && f.Pkg().Path() == "testing" && fails[f.Name()]
}

var fails = fields("Error Errorf Fail FailNow Fatal Fatalf Skip Skipf SkipNow")

// starts has the names of functions that call their argument on another goroutine.
var starts = fields("Go AfterFunc")

var waits = fields("Wait Lock RLock TryLock Do Acquire")

// quiet reports whether f cannot wait for another goroutine.
func quiet(f *types.Func) bool {
	if f == nil || f.Pkg() == nil {
		return false
	}
	if f.Name() == "Go" {
		return true
	}
	return standard(f.Pkg().Path()) && !waits[f.Name()] && f.Pkg().Path() != "testing"
}

func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}
