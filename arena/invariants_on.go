//go:build invariants

package arena

// invariants enables checks that are too slow for production.
const invariants = true

// poison overwrites released memory. If a reader still uses it, the garbage shows the mistake at
// once.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
