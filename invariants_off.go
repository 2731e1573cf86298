//go:build !invariants

package millrace

// invariants is true if the program was built with -tags invariants.
const invariants = false

// token identifies one Draft or Ref from its creation until its release. Without -tags invariants
// it is empty and does nothing.
type token struct{}

func (*token) open(*block, int) {}
func (*token) close()           {}
func (*token) check()           {}

// released distinguishes a released Chain from one that has always been empty. Without -tags
// invariants it is empty and does nothing.
type released struct{}

func (*released) note()  {}
func (*released) clear() {}
func (*released) check() {}

func poison([]byte) {}

func leaks(*Pool) []string { return nil }
