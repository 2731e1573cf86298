//go:build invariants

package arena

// invariants enables checks that are too slow for production.
const invariants = true

// poison overwrites released memory, so that a late use shows obvious garbage.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
