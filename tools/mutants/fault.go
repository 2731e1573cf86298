package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/millrace-io/millrace"

// A fault replaces one line of a function, or removes the line.
type fault struct {
	area     string // name of the file with the description
	name     string // the broken promise
	path     string // file in which the fault is planted, relative to the root of the repository
	function string // function or method (Type.Method), or the name of a variable or constant
	// The lines at the place of the fault, each without its indentation. The line at index place is
	// replaced with line; the others only determine the place.
	lines []string
	place int
	line  string
}

// readFaults reads all faults of the files in dir. It refuses two faults of the same name.
func readFaults(dir string) (faults []fault, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
			f, err := parseFault(block)
			if err == nil && names[f.name] {
				err = errors.New("there are two faults of this name")
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w:\n%s", file, err, block)
			}
			names[f.name] = true
			f.area = strings.TrimSuffix(filepath.Base(file), ".txt")
			faults = append(faults, f)
		}
	}
	return faults, nil
}

// parseFault parses the lines of a fault. The first line is the name, and the second line has the
// path and the function. In the other lines, "-" precedes the line that is replaced, "+" the
// replacement, and a space a line of context.
func parseFault(block string) (f fault, err error) {
	head := strings.SplitN(block, "\n", 3)
	if len(head) < 3 || !strings.HasPrefix(head[0], "# ") {
		return f, errors.New("a fault has a name, a place and lines")
	}
	f.name = head[0][2:]
	f.path, f.function, _ = strings.Cut(head[1], " ")
	removed, added := 0, 0
	for line := range strings.SplitSeq(head[2], "\n") {
		text := strings.TrimSpace(line[min(1, len(line)):])
		switch {
		case strings.HasPrefix(line, "-"):
			f.place = len(f.lines)
			f.lines = append(f.lines, text)
			removed++
		case strings.HasPrefix(line, "+"):
			f.line = text
			added++
		case strings.HasPrefix(line, " "):
			f.lines = append(f.lines, text)
		default:
			return f, fmt.Errorf("the line %q", line)
		}
	}
	if removed != 1 || added > 1 {
		return f, errors.New("a fault replaces or removes one line")
	}
	return f, nil
}

func (f fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n%s %s\n", f.name, f.path, f.function)
	for i, line := range f.lines {
		mark := " "
		if i == f.place {
			mark = "-"
		}
		fmt.Fprintf(&b, "%s %s\n", mark, line)
		if i == f.place && f.line != "" {
			fmt.Fprintf(&b, "+ %s\n", f.line)
		}
	}
	return b.String()
}

// apply returns the content of the file with the fault. The lines of the fault must be at exactly
// one place of the function.
func (f fault) apply() ([]byte, error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s: %s: %s", f.area, f.name, f.path, fmt.Sprintf(format, args...))
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fail("%v", err)
	}
	first, last, err := extent(text, f.function)
	if err != nil {
		return nil, fail("%v", err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	found, places := 0, 0
	for i := first; i+len(f.lines) <= last+1; i++ {
		if slices.EqualFunc(f.lines, lines[i:i+len(f.lines)], func(want, line string) bool {
			return want == strings.TrimSpace(line)
		}) {
			found = i + f.place
			places++
		}
	}
	if places != 1 {
		return nil, fail("%d places in %s have these lines, want 1", places, f.function)
	}
	lines[found] = f.line + "\n"
	mutated := []byte(strings.Join(lines, ""))
	if _, err := parser.ParseFile(token.NewFileSet(), f.path, mutated, 0); err != nil {
		return nil, fail("%v", err)
	}
	return mutated, nil
}

// extent returns the first and the last line of a declaration, counted from 0.
func extent(text []byte, name string) (first, last int, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", text, 0)
	if err != nil {
		return 0, 0, err
	}
	line := func(p token.Pos) int { return fset.Position(p).Line - 1 }
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if funcName(d) == name {
				return line(d.Pos()), line(d.End()), nil
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && v.Names[0].Name == name {
					return line(v.Pos()), line(v.End()), nil
				}
			}
		}
	}
	return 0, 0, fmt.Errorf("there is no %s", name)
}

// funcName returns the name of a function, or Type.Method.
func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + d.Name.Name
	}
	return d.Name.Name
}
