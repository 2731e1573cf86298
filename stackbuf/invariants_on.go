//go:build invariants

package stackbuf

// poison overwrites memory after its loan. If a slice is used too late, its garbage then shows the
// mistake.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
