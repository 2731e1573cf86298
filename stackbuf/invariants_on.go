//go:build invariants

package stackbuf

// poison overwrites released memory, to reveal code that still uses it.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
