package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// swaps maps each token to its replacement in a drawn fault.
var swaps = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.ADD,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.INC: token.DEC, token.DEC: token.INC,
	token.SHL: token.SHR, token.SHR: token.SHL,
	token.BREAK: token.CONTINUE, token.CONTINUE: token.BREAK,
}

// draw prints n faults on random lines of the functions in the directories. Each fault compiles.
// The same seed draws the same faults from the same code. A fault may have no effect.
func draw(n int, seed uint64, dirs []string) error {
	files, err := sources(dirs)
	if err != nil {
		return err
	}
	var candidates [][]fault // the possible faults of each line
	for _, file := range files {
		more, err := faultsOf(file)
		if err != nil {
			return err
		}
		candidates = append(candidates, more...)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(candidates), func(i, j int) {
		candidates[i], candidates[j] = candidates[j], candidates[i]
	})
	for _, line := range candidates {
		if n == 0 {
			break
		}
		if len(line) == 0 {
			continue
		}
		if f := line[random.IntN(len(line))]; compiles(f) {
			fmt.Printf("%s\n", f)
			n--
		}
	}
	return nil
}

// sources returns the Go files of the packages in the directories that the go command would build,
// except tests.
func sources(dirs []string) (files []string, err error) {
	for _, dir := range dirs {
		err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			ok, err := build.Default.MatchFile(filepath.Dir(path), d.Name())
			if ok {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// faultsOf returns the possible faults of each line inside the functions of a file.
func faultsOf(file string) (lines [][]fault, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, text, 0)
	if err != nil {
		return nil, err
	}
	source := strings.Split(string(text), "\n")
	changes := make(map[int][]string) // by line, counted from 0
	change := func(pos token.Pos, length int, replacement string) {
		p := fset.Position(pos)
		line, column := source[p.Line-1], p.Column-1
		changes[p.Line-1] = append(changes[p.Line-1],
			strings.TrimSpace(line[:column]+replacement+line[column+length:]))
	}
	var s scanner.Scanner
	s.Init(fset.AddFile(file, -1, len(text)), text, nil, 0)
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		pos = tree.FileStart + token.Pos(fset.Position(pos).Offset)
		if other, ok := swaps[tok]; ok {
			change(pos, len(tok.String()), other.String())
		}
		if v, err := strconv.ParseInt(literal, 0, 32); err == nil && tok == token.INT {
			change(pos, len(literal), strconv.FormatInt(v+1, 10))
		}
		switch {
		case tok == token.IDENT && literal == "true":
			change(pos, len(literal), "false")
		case tok == token.IDENT && literal == "false":
			change(pos, len(literal), "true")
		}
	}
	for _, decl := range tree.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if !ok || d.Body == nil {
			continue
		}
		ast.Inspect(d.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ExprStmt, *ast.AssignStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt:
				from, to := fset.Position(n.Pos()), fset.Position(n.End())
				if line := from.Line - 1; from.Line == to.Line &&
					strings.TrimSpace(source[line][:from.Column-1]) == "" {
					changes[line] = append(changes[line], "")
				}
			case *ast.IfStmt:
				if from, to := fset.Position(n.Cond.Pos()), fset.Position(n.Cond.End()); from.Line ==
					to.Line {
					cond := source[from.Line-1][from.Column-1 : to.Column-1]
					change(n.Cond.Pos(), len(cond), "!("+cond+")")
				}
			}
			return true
		})
		name := funcName(d)
		end := fset.Position(d.End()).Line - 1
		for i := fset.Position(d.Body.Pos()).Line; i < end; i++ {
			var list []fault
			for _, line := range changes[i] {
				f := fault{path: file, function: name, lines: []string{strings.TrimSpace(source[i])},
					line: line}
				f.name = fmt.Sprintf("%s line %d", name, i-fset.Position(d.Pos()).Line+1)
				for first := i - 1; first >= fset.Position(d.Pos()).Line-1; first-- {
					if _, err := f.apply(); err == nil {
						break
					}
					f.lines = append([]string{strings.TrimSpace(source[first])}, f.lines...)
					f.place++
				}
				list = append(list, f)
			}
			lines = append(lines, list)
		}
	}
	return lines, nil
}

// compiles reports whether the package of f compiles with the fault.
func compiles(f fault) bool {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	overlay, err := writeOverlay(dir, f)
	return err == nil &&
		exec.Command("go", "build", "-overlay="+overlay, "./"+filepath.Dir(f.path)).Run() == nil
}
