package millrace_test

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"strings"
	"testing"
)

// The README's code compiles inside a function.
func TestTheReadmeCompiles(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(readme), "```go\n")
	text, _, ok := strings.Cut(text, "```")
	imports, body, both := strings.Cut(text, "\n\n")
	if !ok || !both {
		t.Fatal("the README has no Go code with an import above it")
	}
	source := "package p\n\n" + imports + `
import ("hash"; "net")

func f(conn net.Conn, hash hash.Hash, n, packetSize int, outs []chan millrace.Chain) error {
` + body + "return nil\n}\n"
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "README.md", source, 0)
	if err != nil {
		t.Fatalf("the example is not Go: %v in\n%s", err, source)
	}
	t.Setenv("CC", "/no/such/compiler") // the README requires only Go
	build.Default.CgoEnabled = false    // otherwise the importer would run cgo for net
	conf := types.Config{Importer: importer.ForCompiler(files, "source", nil)}
	if _, err := conf.Check("p", files, []*ast.File{file}, nil); err != nil {
		t.Errorf("the example does not compile: %v in\n%s", err, source)
	}
}
