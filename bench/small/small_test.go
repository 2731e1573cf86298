package small

import "testing"

// TestWorksComeToTheSame does each case once, with each type.
func TestWorksComeToTheSame(t *testing.T) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			lastLen, lastString = -1, ""
			c.Bytes(1)
			wantLen, wantString := lastLen, lastString
			for _, work := range []Work{c.Stackbuf, c.Builder} {
				if work == nil {
					continue
				}
				lastLen, lastString = -1, ""
				work(1)
				if lastLen != wantLen || lastString != wantString {
					t.Errorf("%d bytes and %q, want %d and %q", lastLen, lastString, wantLen, wantString)
				}
			}
		})
	}
}
