//go:build !invariants

package millrace

// invariants tells the compiler whether to keep the checks that only tests can afford.
const invariants = false

// token identifies one Draft or Ref from its creation until its release. Without -tags invariants
// it has no size and does nothing.
type token struct{}

func (*token) open(*block, int) {}
func (*token) close()           {}
func (*token) check()           {}

// released distinguishes a released Chain from one that has always been empty. Without -tags
// invariants it has no size and does nothing.
type released struct{}

func (*released) note()  {}
func (*released) clear() {}
func (*released) check() {}

func poison([]byte) {}

func leaks(*Pool) []string { return nil }
