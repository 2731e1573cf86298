//go:build !invariants

package millrace

const invariants = false

// token detects misuse of a Draft or Ref in a program built with -tags invariants. In this build it
// does nothing.
type token struct{}

func (*token) open(*block, int) {}
func (*token) close()           {}
func (*token) check()           {}

// released does nothing in this build. In a build with -tags invariants, it detects the use of a
// Chain after its Release.
type released struct{}

func (*released) note()  {}
func (*released) clear() {}
func (*released) check() {}

func poison([]byte) {}

func leaks(*Pool) []string { return nil }
