//go:build invariants

package stackbuf

// poison overwrites memory that must no longer be used. Code that wrongly still uses the memory
// then finds obvious garbage.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
