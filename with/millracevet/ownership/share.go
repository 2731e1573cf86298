package ownership

import (
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// shareKey returns the location that v points to, and whether only one goroutine at a time may use
// the value at this location.
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

// markShared records that another goroutine uses the target of pointer v.
func (a *flow) markShared(s states, v ssa.Value, pos token.Pos) {
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

// sharedUse reports a use of v if another goroutine may also use the target of v.
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

// unshare clears the flag shared in all states. It is for instructions that may wait until the
// other goroutines have ended.
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

// usesAlone reports whether fn uses the captured variable v and never waits for other goroutines.
func usesAlone(fn *ssa.Function, v *ssa.FreeVar) bool {
	key, ok := shareKey(v)
	uses := false
	for i := range instructions[ssa.Instruction](fn) {
		if waiting(i) {
			return false
		}
		if call, ok := i.(*ssa.Call); ok {
			if r, args := ruleOf(&call.Call); r != nil {
				uses = uses || slices.ContainsFunc(args, func(v ssa.Value) bool {
					return v != nil && locate(v) == key
				})
			}
		}
	}
	return ok && uses
}

// failsTest reports whether f is a testing method that fails or skips the test.
func failsTest(f *types.Func) bool {
	return f != nil && f.Pkg() != nil && f.Pkg().Path() == "testing" && fails[f.Name()]
}

var fails = fields("Error Errorf Fail FailNow Fatal Fatalf Skip Skipf SkipNow")

// starters lists functions that call their argument on another goroutine.
var starters = fields("Go AfterFunc")

var waits = fields("Wait Lock RLock TryLock Do Acquire")

// quiet reports whether a call to f never waits for another goroutine.
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
