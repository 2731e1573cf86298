//go:build !invariants

package arena

// invariants enables checks that are too slow for production.
const invariants = false

func poison([]byte) {}
