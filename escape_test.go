//go:build !race && !invariants

package millrace_test

import (
	"os/exec"
	"regexp"
	"slices"
	"testing"
)

// Chains, Refs, Drafts and views that are local to a function stay on its stack, whichever methods
// are called. So do the function arguments of All and ReadRange. The compiler's report is checked.
func TestLocalsStayOnTheStack(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", "./testdata/escape").CombinedOutput()
	if err != nil {
		t.Fatalf("the compiler failed: %v\n%s", err, out)
	}
	var moved []string
	for _, match := range regexp.MustCompile(
		`moved to heap: (\w+)|(func literal) escapes`).FindAllSubmatch(out, -1) {
		moved = append(moved, string(match[1])+string(match[2]))
	}
	if want := []string{"outlives"}; !slices.Equal(moved, want) {
		t.Errorf("the compiler moved %q to the heap, want %q\n%s", moved, want, out)
	}
}
