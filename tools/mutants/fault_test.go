package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const program = `package p

type T struct{}

func (t *T) twice(n int) int {
	if n > 1 {
		n++
		return n
	}
	if n < 0 {
		return n
	}
	return 2 * n
}

const limit = 3
`

// A fault is planted at its line, and refused if the line is at no place or at several.
func TestApply(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, lines, before, after string }{
		{"T.twice", "-  if n > 1 {\n+ if n >= 1 {", "\tif n > 1 {\n", "if n >= 1 {\n"},
		{"T.twice", "- n++", "\t\tn++\n", "\n"},
		{"T.twice", "  if n < 0 {\n- return n\n+ return 1", "< 0 {\n\t\treturn n\n",
			"< 0 {\nreturn 1\n"},
		{"limit", "- const limit = 3\n+ const limit = 4", "limit = 3\n", "limit = 4\n"},
		{"T.twice", "- return n", "", ""},        // two places
		{"T.twice", "- n--", "", ""},             // no place
		{"T.twice", "- const limit = 3", "", ""}, // at another place
		{"twice", "- n++", "", ""},               // no such function
		{"T.twice", "- n++\n+ n+", "", ""},       // a syntax error
	} {
		f, err := parseFault("# name\n" + path + " " + test.name + "\n" + test.lines)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.apply()
		if test.before == "" {
			if err == nil {
				t.Errorf("%q applies:\n%s", test.lines, got)
			}
			continue
		}
		want := strings.Replace(program, test.before, test.after, 1)
		if string(got) != want || err != nil {
			t.Errorf("%q: %v:\n%s", test.lines, err, got)
		}
		again, err := parseFault(strings.TrimSpace(f.String()))
		if err != nil || again.String() != f.String() {
			t.Errorf("%q: written as %q, read as %q, %v", test.lines, f, again, err)
		}
	}
}

// A fault has a name and a place, and changes one line.
func TestParseFault(t *testing.T) {
	for _, block := range []string{
		"", "# name", "# name\npath F", "name\npath F\n- a", "# name\npath F\n+ a",
		"# name\npath F\n- a\n- b", "# name\npath F\n- a\n+ b\n+ c", "# name\npath F\n- a\nb",
	} {
		if f, err := parseFault(block); err == nil {
			t.Errorf("%q is a fault: %+v", block, f)
		}
	}
}

// The name of a test is that of the deepest test that failed first.
func TestFirstFailure(t *testing.T) {
	for out, want := range map[string]string{
		"ok  \tp\t0.1s\n":      "",
		"--- FAIL: TestA (0s)": "TestA",
		"--- FAIL: TestA (0s)\n    --- FAIL: TestA/b (0s)\n--- FAIL: TestC (0s)": "TestA/b",
		"panic: test timed out after 1s\n":                                       "panic: test timed out after 1s",
	} {
		if got := firstFailure(out); got != want {
			t.Errorf("%q: %q, want %q", out, got, want)
		}
	}
}
