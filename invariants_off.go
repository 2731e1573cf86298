//go:build !invariants

package millrace

const invariants = false

// With -tags invariants, a token detects misuse of a Draft or Ref.
type token struct{}

func (*token) open(*block, int) {}
func (*token) close()           {}
func (*token) check()           {}

// With -tags invariants, released detects use of a Chain after its Release.
type released struct{}

func (*released) note()  {}
func (*released) clear() {}
func (*released) check() {}

func poison([]byte) {}

func leaks(*Pool) []string { return nil }
