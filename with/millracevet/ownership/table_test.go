package ownership

import (
	"go/ast"
	"go/types"
	"strings"
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
		if f.Exported() && rules[name] == nil && rules[nameOf(f)] == nil && nameOf(f) != "" &&
			!noRule[name] && concernsMemory(f.Signature()) {
			t.Errorf("the table and noRule lack %s: %v", name, f.Signature())
		}
	}
	for name := range noRule {
		if known[name] == nil || rules[name] != nil {
			t.Errorf("noRule has %s", name)
		}
	}
}

// noRule lists functions that return a slice of their own or an argument. The slices of a Sealed
// format are for the decoder.
var noRule = fields(`flv.Tag.AppendTracks frame.Encoding.AppendHeader frame.Sealed.Open
frame.Sealed.PlainHeader frame.VarEncoding.AppendHeader hls.AppendMultivariant
hls.Window.AppendPlaylist millrace.Chain.MarshalJSON millrace.Ref.MarshalJSON rtmp.AppendAMF
stackbuf.Buffer.ReadBytes sv2.Format.AppendHeader sv2.Header.Append`)

// concernsMemory reports whether a function gets or returns an owner, returns a slice of bytes or
// an iterator, or gets a function that gets such a slice.
func concernsMemory(s *types.Signature) bool {
	bytes := types.NewSlice(types.Typ[types.Byte])
	isBytes := func(t types.Type) bool { return types.Identical(t, bytes) }
	if r := s.Recv(); r != nil {
		if _, name, _ := strings.Cut(typeName(r.Type()), "."); !ast.IsExported(name) {
			return false
		}
	}
	for p := range s.Params().Variables() {
		f, isFunc := p.Type().Underlying().(*types.Signature)
		if name := typeName(p.Type()); owners[name] || owners["*"+name] ||
			isFunc && f.Params().Len() > 0 && isBytes(f.Params().At(0).Type()) {
			return true
		}
	}
	for r := range s.Results().Variables() {
		f, isFunc := r.Type().Underlying().(*types.Signature)
		if isFunc && f.Params().Len() == 1 {
			_, isFunc = f.Params().At(0).Type().Underlying().(*types.Signature)
		}
		if name := typeName(r.Type()); owners[name] || owners["*"+name] || isBytes(r.Type()) || isFunc {
			return true
		}
	}
	return false
}
