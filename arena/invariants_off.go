//go:build !invariants

package arena

// invariants tells the compiler whether to keep the checks that only tests can afford.
const invariants = false

func poison([]byte) {}
