package ownership

import (
	"go/types"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/packages"
)

// Each line of the table is a function of the library, with the arguments that the line names. Each
// exported function that gets a pointer to a Chain is in the table.
func TestTable(t *testing.T) {
	paths := []string{}
	for suffix := range libraryPackages {
		paths = append(paths, module+suffix)
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedTypes |
		packages.NeedImports | packages.NeedDeps | packages.NeedExportFile,
		Dir: analysistest.TestData()}, paths...)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]*types.Func{}
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
		scope := p.Types.Scope()
		for _, name := range scope.Names() {
			switch o := scope.Lookup(name).(type) {
			case *types.Func:
				known[nameOf(o)] = o
			case *types.TypeName:
				set := types.NewMethodSet(types.NewPointer(o.Type()))
				if types.IsInterface(o.Type()) {
					set = types.NewMethodSet(o.Type())
				}
				for m := range set.Methods() {
					f := m.Obj().(*types.Func)
					known[nameOf(f)] = f
				}
			}
		}
	}
	for name, r := range rules {
		f := known[name]
		if f == nil {
			t.Errorf("the library has no %s", name)
			continue
		}
		for _, list := range [][]int{r.takes, r.fills, r.adds, r.borrows, r.keeps, r.drains, r.calls} {
			for _, n := range list {
				if n > f.Signature().Params().Len() {
					t.Errorf("%s has no argument %d", name, n)
				}
			}
		}
	}
	for name, f := range known {
		if !f.Exported() || rules[name] != nil || rules[nameOf(f)] != nil || nameOf(f) == "" {
			continue
		}
		for p := range f.Signature().Params().Variables() {
			if typeName(p.Type()) == "millrace.Chain" {
				t.Errorf("the table lacks %s", name)
			}
		}
	}
}
