//go:build invariants

package arena

const invariants = true

// poison overwrites released memory, to reveal code that still uses the memory.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
