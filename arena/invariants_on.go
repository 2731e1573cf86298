//go:build invariants

package arena

// invariants tells the compiler whether to keep the checks that only tests can afford.
const invariants = true

// poison overwrites memory that was released, so that whoever still reads it is found out.
func poison(p []byte) {
	for i := range p {
		p[i] = 0xdb
	}
}
