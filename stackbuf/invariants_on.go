//go:build invariants

package stackbuf

// poison overwrites memory that has no reader any more, so that a late use of a slice shows obvious
// garbage.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
