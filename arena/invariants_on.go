//go:build invariants

package arena

const invariants = true

// poison overwrites released memory. Code that wrongly still uses the memory then finds obvious
// garbage.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
