package ownership

import (
	"go/ast"
	"go/token"

	"golang.org/x/tools/go/ssa"
)

// variableName returns the name of the variable that v is assigned to, or "".
func (c *checker) variableName(v ssa.Value) string {
	n, pos := 0, v.Pos()
	switch v := v.(type) {
	case *ssa.Phi:
		return v.Comment
	case *ssa.UnOp: // an element
		if e, ok := v.X.(*ssa.IndexAddr); ok {
			return c.variableName(e.X)
		}
	case *ssa.Extract:
		n, pos = v.Index, v.Tuple.Pos()
	}
	if c.names == nil {
		c.names = map[token.Pos][]ast.Expr{}
		for _, f := range c.pass.Files {
			for node := range ast.Preorder(f) {
				if s, ok := node.(*ast.AssignStmt); ok {
					c.addNames(s)
				}
			}
		}
	}
	if names := c.names[pos]; pos.IsValid() && n < len(names) {
		if id, ok := names[n].(*ast.Ident); ok && id.Name != "_" {
			return id.Name
		}
	}
	return ""
}

// addNames records the names to which s assigns calls and slice expressions. The keys of c.names
// are the positions of the opening parentheses and brackets, as in package ssa.
func (c *checker) addNames(s *ast.AssignStmt) {
	for i, right := range s.Rhs {
		names := s.Lhs
		if len(s.Rhs) > 1 {
			names = s.Lhs[i : i+1]
		}
		switch e := ast.Unparen(right).(type) {
		case *ast.CallExpr:
			c.names[e.Lparen] = names
		case *ast.SliceExpr:
			c.names[e.Lbrack] = names
		}
	}
}
