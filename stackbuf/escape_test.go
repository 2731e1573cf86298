//go:build !race && !invariants

package stackbuf_test

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

const escapeFile = "testdata/escape/escape.go"

var (
	declared = regexp.MustCompile(`^\t(?:var )?(\w+) .*// (stays|moves)$`)
	made     = `(?:&stackbuf\.Buffer\{\.\.\.\}|new\(stackbuf\.Buffer\))`
	toHeap   = regexp.MustCompile(`escape\.go:(\d+):\d+: (?:moved to heap: (\w+)|` + made +
		` escapes to heap)`)
	toStack = regexp.MustCompile(`escape\.go:(\d+):\d+: ` + made + ` does not escape`)
)

// The compiler reports where it allocates a Buffer. The program in testdata states what is
// expected.
func TestWhatStaysOnTheStack(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", "./testdata/escape").CombinedOutput()
	if err != nil {
		t.Fatalf("the compiler failed: %v\n%s", err, out)
	}
	moved := make(map[int]string) // line number to the compiler's message
	for _, match := range toHeap.FindAllSubmatch(out, -1) {
		line, _ := strconv.Atoi(string(match[1]))
		moved[line] = string(match[2])
	}
	stays, moves := 0, 0
	for line, text := range lines(t, escapeFile) {
		match := declared.FindStringSubmatch(text)
		name, isMoved := moved[line]
		switch {
		case match == nil && isMoved:
			t.Errorf("%s:%d: %s moves to the heap, and nothing is said of it", escapeFile, line,
				name)
		case match == nil:
		case isMoved != (match[2] == "moves"):
			t.Errorf("%s:%d: %s %s, says the comment; the compiler moves it: %t", escapeFile, line,
				match[1], match[2], isMoved)
		case isMoved:
			moves++
		default:
			stays++
		}
	}
	if stays < 15 || moves < 12 {
		t.Errorf("%d variables stay and %d move, want at least 15 and 12", stays, moves)
	}
	if n := len(toStack.FindAll(out, -1)); n < 3 {
		t.Errorf("the compiler leaves %d constructed Buffers where they are, want 3: is no constructor inlined?\n%s", n, out)
	}
}

// The compiler reports the effect of every method on its Buffer. None makes the Buffer escape.
// Methods that lend its bytes tie them to it. Methods that pass its bytes to an interface pass the
// memory of spill, not the Buffer.
func TestWhatMethodsDoToTheirBuffer(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("the compiler failed: %v\n%s", err, out)
	}
	if found := regexp.MustCompile(`.*leaking param: b\n`).FindAll(out, -1); len(found) > 0 {
		t.Errorf("the Buffer escapes:\n%s", slices.Concat(found...))
	}
	for _, want := range []string{
		`leaking param: b to result ~r0 level=0`, // Bytes, and others
		`leaking param content: b`,               // ReadFrom, WriteTo
		`b does not escape`,
		`can inline NewBuffer\n`,
		`can inline NewBufferString\n`,
		`can inline \(\*Buffer\)\.Bytes\n`,
		`can inline \(\*Buffer\)\.String\n`,
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("the compiler does not say %q:\n%s", want, out)
		}
	}
}

// lines returns the lines of a file, from 1.
func lines(t *testing.T, name string) map[int]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := make(map[int]string)
	for s := bufio.NewScanner(f); s.Scan(); {
		all[len(all)+1] = s.Text()
	}
	return all
}
