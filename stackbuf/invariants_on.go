//go:build invariants

package stackbuf

// poison overwrites memory that is no longer lent, so that a slice that was kept shows garbage.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
